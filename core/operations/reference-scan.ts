// Finds the names in a body by which it refers to what an account of an upstream keeps, without parsing it and in
// slices: files, containers, vector stores, prompts, cached contents.
import { folded } from '../bodies/lookalike.ts'
import type { Work } from '../bodies/turns.ts'

/** Steps between two looks at the clock. */
const stride = 1024
/** Bytes of a name, as it is written with escapes. */
const longestName = 6 * 64
/** Characters of an id; what is longer is none that anybody gave, and is told by its beginning. */
const longestId = 512
/** References of one body that are looked up; one more is found, for whoever counts. */
export const mostReferences = 200

const quote = 0x22
const backslash = 0x5c

/**
 * Members whose texts are such names, in small letters, as readers differ in whether they care for capitals: those of
 * https://platform.openai.com/docs/api-reference/responses/create, https://platform.claude.com/docs/en/api/messages and
 * https://ai.google.dev/api/generate-content.
 */
const naming: ReadonlySet<string> = new Set([
  'file_id',
  'file_ids',
  'vector_store_ids',
  'container',
  'container_id',
  'approval_request_id',
  'skill_id',
  'cachedcontent',
  'cached_content',
  'filesearchstorenames',
  'file_search_store_names'
])
/** Members that are addresses, of which some are those of files that an account keeps. */
const addresses: ReadonlySet<string> = new Set(['fileuri', 'file_uri'])
const keptAddress = /^files\/|^gs:|\/(?:v1|v1beta|v1alpha)\/files\//i
/** Members that are objects with such a name as their id. */
const named: ReadonlySet<string> = new Set(['prompt', 'audio', 'container', 'voice'])
/**
 * Members whose insides are data of the client's: arguments of calls and what they came to, schemas, labels. Nobody
 * looks for references in them, and what stands there has names of the client's own.
 */
const silent: ReadonlySet<string> = new Set([
  'args',
  'arguments',
  'input_schema',
  'inputschema',
  'json_schema',
  'metadata',
  'parameters',
  'parametersjsonschema',
  'responsejsonschema',
  'responseschema',
  'response_schema',
  'schema'
])
/** Likewise, but at the top, where they are what a request says, and what an event does. */
const silentBelow: ReadonlySet<string> = new Set(['input', 'response'])

/** By length and first letter, which rules out most other names at a glance. */
const known = new Set(
  [...naming, ...addresses, ...named, ...silent, ...silentBelow, 'id'].map((name) =>
    glanceOf(name.length, name.charCodeAt(0))
  )
)

/** A list or an object that is being read. */
interface Frame {
  readonly list: boolean
  /** The member whose value it is, or of the list that it is in. */
  readonly under: string
  readonly silent: boolean
  /** Of the member whose value comes; undefined where a name comes. */
  key: string | undefined
}

/** One JSON text that has been checked. */
export class ReferenceScan implements Work<ReadonlySet<string>> {
  readonly #bytes: Buffer
  readonly #found = new Set<string>()
  readonly #frames: Frame[] = []
  #at = 0
  /** Where the text began that is being passed over; undefined outside of one. */
  #text: number | undefined

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  advance(until: number): ReadonlySet<string> | undefined {
    const bytes = this.#bytes
    for (let step = 1; this.#at < bytes.length && this.#found.size <= mostReferences; step++) {
      if (step % stride === 0 && performance.now() >= until) return undefined
      if (this.#text === undefined) this.#structure(bytes[this.#at]!)
      else this.#inText(this.#text)
    }
    return this.#found
  }

  #structure(byte: number): void {
    const at = this.#at++
    switch (byte) {
      case quote:
        this.#text = at
        return
      case 0x7b:
      case 0x5b:
        this.#open(byte === 0x5b)
        return
      case 0x7d:
      case 0x5d:
        this.#frames.pop()
        return
      case 0x2c: {
        const frame = this.#frames.at(-1)
        if (frame && !frame.list) frame.key = undefined
        return
      }
      default:
    }
  }

  #open(list: boolean): void {
    const frames = this.#frames
    const above = frames.at(-1)
    const under = above ? (above.list ? above.under : (above.key ?? '')) : ''
    const isSilent =
      above !== undefined &&
      (above.silent || (!above.list && (silent.has(under) || (silentBelow.has(under) && frames.length > 1))))
    frames.push({ list, under, silent: isSilent, key: undefined })
  }

  /** Goes to the next quote, which ends the text unless it is escaped. */
  #inText(from: number): void {
    const bytes = this.#bytes
    const end = bytes.indexOf(quote, this.#at)
    this.#at = end + 1
    let escapes = 0
    while (bytes[end - 1 - escapes] === backslash) escapes++
    if (escapes % 2 === 1) return
    this.#text = undefined
    const frame = this.#frames.at(-1)
    if (!frame) return
    if (!frame.list && frame.key === undefined) frame.key = this.#nameAt(from + 1, end)
    else if (!frame.silent) this.#value(frame, from, end)
  }

  /** What a member is called, in small letters; empty for one that does not matter. */
  #nameAt(from: number, end: number): string {
    const bytes = this.#bytes
    const length = end - from
    if (length > longestName) return ''
    let plain = true
    for (let at = from; plain && at < end; at++) plain = bytes[at] !== backslash && bytes[at]! < 0x80
    if (plain && !known.has(glanceOf(length, bytes[from]! | 0x20))) return ''
    return folded(JSON.parse(bytes.toString('utf8', from - 1, end + 1)) as string)
  }

  #value(frame: Frame, from: number, end: number): void {
    const name = frame.list ? frame.under : frame.key!
    if (name === '') return
    const names = naming.has(name) || (name === 'id' && !frame.list && named.has(frame.under))
    if (!names && !addresses.has(name)) return
    const id = this.#textAt(from, end)
    if (id !== '' && (names || keptAddress.test(id))) this.#found.add(id)
  }

  #textAt(from: number, end: number): string {
    const bytes = this.#bytes
    if (end - from <= 6 * longestId) return JSON.parse(bytes.toString('utf8', from, end + 1)) as string
    return bytes.toString('utf8', from + 1, from + longestId)
  }
}

function glanceOf(length: number, first: number): number {
  return length * 256 + first
}
