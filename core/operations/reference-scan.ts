// Finds the ids in a JSON body that refer to things an upstream's account keeps: files, containers, vector stores,
// prompts, cached contents. It works in slices and does not parse the body.
import { Watch } from '../bodies/lens.ts'
import { folded } from '../bodies/lookalike.ts'
import { Walk } from '../bodies/walk.ts'

/** The longest member name that is read, in bytes, with every character escaped. */
const longestName = 6 * 64
/**
 * The longest id, in characters. Of a longer text only the beginning is reported, which matches nothing that is known.
 */
const longestId = 512
/**
 * How many references of one body are looked up. A scan stops at one more, so that its caller sees that there are too
 * many.
 */
export const mostReferences = 200

const backslash = 0x5c

/**
 * Members whose strings are ids of kept things. They are in small letters, as some readers ignore case. Sources:
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
/** Members that hold addresses. Some of these are addresses of files that an account keeps. */
const addresses: ReadonlySet<string> = new Set(['fileuri', 'file_uri'])
const keptAddress = /^files\/|^gs:|\/(?:v1|v1beta|v1alpha)\/files\//i
/** Members whose objects have the id of a kept thing as `id`. */
const named: ReadonlySet<string> = new Set(['prompt', 'audio', 'container', 'voice'])
/** A JSON text that mentions none of these has no references (see `Lens.mayMention`). */
export const referring = new Watch([...naming, ...addresses, ...named])
/**
 * Members whose contents belong to the client: arguments and results of calls, schemas, labels. They are not searched,
 * as a member inside may have any name.
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
/**
 * These are the client's data only below the top level. At the top, `input` is the request's and `response` an event's.
 */
const silentBelow: ReadonlySet<string> = new Set(['input', 'response'])

/** Hashes of length and first letter, which rule out most other names without decoding them. */
const known = new Set(
  [...naming, ...addresses, ...named, ...silent, ...silentBelow, 'id'].map((name) =>
    glanceOf(name.length, name.charCodeAt(0))
  )
)

/** An open list or object. */
interface Frame {
  readonly list: boolean
  /** The name of the member whose value this is. Inside lists, the name of the member that holds the outermost list. */
  readonly under: string
  readonly silent: boolean
  /** The name of the member whose value comes next; undefined where a name comes next. */
  key: string | undefined
}

/** A scan of one JSON text, which must have been checked already. */
export class ReferenceScan extends Walk<ReadonlySet<string>> {
  readonly #found = new Set<string>()
  readonly #frames: Frame[] = []

  protected get found(): ReadonlySet<string> {
    return this.#found
  }

  protected open(_at: number, list: boolean): void {
    const frames = this.#frames
    const above = frames.at(-1)
    const under = above ? (above.list ? above.under : (above.key ?? '')) : ''
    const isSilent =
      above !== undefined &&
      (above.silent || (!above.list && (silent.has(under) || (silentBelow.has(under) && frames.length > 1))))
    frames.push({ list, under, silent: isSilent, key: undefined })
  }

  protected close(): void {
    this.#frames.pop()
  }

  protected comma(): void {
    const frame = this.#frames.at(-1)
    if (frame && !frame.list) frame.key = undefined
  }

  protected text(from: number, end: number): void {
    const frame = this.#frames.at(-1)
    if (!frame) return
    if (!frame.list && frame.key === undefined) frame.key = this.#nameAt(from + 1, end)
    else if (!frame.silent) this.#value(frame, from, end)
  }

  protected scalar(): void {}

  /** A member's name in small letters; may be empty for a name that no set contains. */
  #nameAt(from: number, end: number): string {
    const { bytes } = this
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
    if (id === '' || !(names || keptAddress.test(id))) return
    this.#found.add(id)
    this.over = this.#found.size > mostReferences
  }

  #textAt(from: number, end: number): string {
    const { bytes } = this
    if (end - from <= 6 * longestId) return JSON.parse(bytes.toString('utf8', from, end + 1)) as string
    return bytes.toString('utf8', from + 1, from + longestId)
  }
}

function glanceOf(length: number, first: number): number {
  return length * 256 + first
}
