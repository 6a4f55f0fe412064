// Finds the parts of a request whose length cannot be told from its bytes: pictures, documents, and content stored
// elsewhere.
import { stringEnd, Watch } from '../core/contract/contract.ts'
import type { RequestBody } from '../core/bodies/body.ts'

/** The members that contain a conversation, in all protocols. */
const conversations = [
  'messages',
  'input',
  'contents',
  'system',
  'systemInstruction',
  'system_instruction',
  'images'
] as const
/** The members that refer to content stored elsewhere, which the model reads with the request. */
const elsewhere = [
  'previous_response_id',
  'conversation',
  'prompt',
  'cachedContent',
  'cached_content',
  'container'
] as const

/** The members whose `url` may lead to something of any length. */
const addressed: ReadonlySet<string> = new Set(['source', 'video_url', 'audio_url', 'document_url'])
/** A body that mentions none of these has nothing unseen. An item that is kept elsewhere is referred to by its `id`. */
const telling = new Watch([
  ...elsewhere,
  ...addressed,
  'image_url',
  'url',
  'id',
  'file_data',
  'file_id',
  'file_url',
  'file_uri',
  'fileUri',
  'media_type',
  'mime_type',
  'mimeType'
])

/**
 * The most bytes that are examined one by one, with each string counted as so many of them. A longer body may contain
 * anything.
 */
const mostWork = 256 * 1024
const workOfString = 64
/** The longest key or word that is looked for. */
const longestWord = 32
/** The deepest nesting of a body. */
const mostDepth = 512
const quote = 0x22

/** What was found. */
export interface Unseen {
  /** The number of pictures. Each has a known largest size. */
  pictures: number
  /** True when something may be as long as all that the model can read. */
  endless: boolean
}

const nothing: Readonly<Unseen> = Object.freeze({ pictures: 0, endless: false })

/**
 * Examines a body without parsing it. `recalled`: true when the length of the stored conversation that the request
 * continues is known.
 */
export function unseenIn({ lens }: RequestBody, recalled: boolean): Readonly<Unseen> {
  if (!lens.mayMention(telling)) return nothing
  const seen = new Walk(recalled)
  for (const name of elsewhere) {
    const type = recalled && name !== 'prompt' ? undefined : lens.type(name)
    // A prompt that is a string is in the body itself; an object refers to a stored prompt.
    if (type === 'object' || (type === 'string' && name !== 'prompt')) seen.found.endless = true
  }
  for (const name of conversations) {
    const value = seen.found.endless ? undefined : lens.slice(name)
    if (value) seen.read(value)
  }
  return seen.found
}

/** Goes through JSON, and knows the keys above each string. */
class Walk {
  readonly found: Unseen = { pictures: 0, endless: false }
  /** By depth: the key of the current member, and the `type` of its object. */
  readonly #keys: string[] = []
  readonly #types: string[] = []
  readonly #recalled: boolean

  constructor(recalled: boolean) {
    this.#recalled = recalled
  }

  read(value: Buffer): void {
    let depth = 0
    let work = 0
    this.#keys[0] = this.#types[0] = ''
    for (let at = 0; at < value.length && !this.found.endless; work++) {
      if (work > mostWork) this.found.endless = true
      const byte = value[at++]!
      // { and [, then } and ].
      if (byte === 0x7b || byte === 0x5b) {
        depth = Math.min(depth + 1, mostDepth)
        // An element of a list belongs to the key of the list.
        this.#keys[depth] = byte === 0x5b ? this.#keys[depth - 1]! : ''
        this.#types[depth] = byte === 0x5b ? this.#types[depth - 1]! : ''
      } else if (byte === 0x7d || byte === 0x5d) depth = Math.max(depth - 1, 0)
      if (byte !== quote) continue
      const end = stringEnd(value, at)
      work += workOfString
      const from = at
      at = end + 1
      while (at < value.length && value[at]! <= 0x20) at++
      if (value[at] === 0x3a) this.#keys[depth] = word(value, from, end)
      else this.#text(depth, value, from, end)
    }
  }

  #text(depth: number, value: Buffer, from: number, end: number): void {
    const key = this.#keys[depth]!
    if (key === 'type') this.#types[depth] = word(value, from, end)
    const type = this.#types[depth]!
    switch (key) {
      case 'type':
        if (type === 'item_reference' && !this.#recalled) this.found.endless = true
        return
      case 'image_url':
        this.found.pictures++
        return
      case 'url':
      case 'id':
        return this.#inside(depth, key)
      case 'video_url':
      case 'audio_url':
      case 'document_url':
        this.found.endless = true
        return
      case 'file_data':
      case 'file_id':
      case 'file_url':
      case 'file_uri':
      case 'fileUri':
        if (type === 'input_image') this.found.pictures++
        else this.found.endless = true
        return
      case 'media_type':
      case 'mime_type':
      case 'mimeType':
        return this.#medium(word(value, from, Math.min(end, from + 'application/'.length)))
    }
  }

  /** Handles an address or id whose outer key tells its kind. */
  #inside(depth: number, key: 'url' | 'id'): void {
    const outer = this.#keys[depth - 1]
    const picture = outer === 'image_url' || (outer === 'source' && this.#types[depth - 1] === 'image')
    if (key === 'url' && picture) this.found.pictures++
    else if (key === 'url' ? addressed.has(outer!) : outer === 'audio') this.found.endless = true
  }

  /** Sound needs no count, because it has more bytes than tokens. A film may have fewer, so it may be of any length. */
  #medium(type: string): void {
    const kind = type.toLowerCase()
    if (kind.startsWith('image/')) this.found.pictures++
    else if (kind.startsWith('application/') || kind.startsWith('video/')) this.found.endless = true
  }
}

/** A short string with its escapes resolved; the empty string for a longer one. */
function word(bytes: Buffer, from: number, end: number): string {
  const text = end - from > longestWord * 6 ? '' : bytes.toString('latin1', from, end)
  if (!text.includes('\\')) return text.length > longestWord ? '' : text
  try {
    return JSON.parse(`"${text}"`) as string
  } catch {
    return ''
  }
}
