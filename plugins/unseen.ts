// What a request brings that its bytes do not tell the length of: pictures, documents, and what stands elsewhere.
import { stringEnd } from '../core/contract/contract.ts'
import type { RequestBody } from '../core/bodies/body.ts'

/** Members in which a conversation stands, of all protocols. */
const conversations = [
  'messages',
  'input',
  'contents',
  'system',
  'systemInstruction',
  'system_instruction',
  'images'
] as const
/** Members that lead to something that is kept elsewhere and read with the request. */
const elsewhere = [
  'previous_response_id',
  'conversation',
  'prompt',
  'cachedContent',
  'cached_content',
  'container'
] as const

/** Bytes looked at one by one, strings as so many each. In what is longer there may be anything. */
const mostWork = 256 * 1024
const workOfString = 64
/** A key or a word that is longer is none of these. */
const longestWord = 32
/** As deep as a body may be. */
const mostDepth = 512
const quote = 0x22

/** What was found. */
export interface Unseen {
  /** Pictures, which have a bound each. */
  pictures: number
  /** Something that may be as long as the model can read. */
  endless: boolean
}

/** Looks through a body, without parsing it. `recalled`: it is known how long is what the request goes on with. */
export function unseenIn({ lens }: RequestBody, recalled: boolean): Unseen {
  const seen = new Walk(recalled)
  for (const name of elsewhere) {
    const type = recalled && name !== 'prompt' ? undefined : lens.type(name)
    // A prompt that is a text is said here; an object leads to one that is kept.
    if (type === 'object' || (type === 'string' && name !== 'prompt')) seen.found.endless = true
  }
  for (const name of conversations) {
    const value = seen.found.endless ? undefined : lens.slice(name)
    if (value) seen.read(value)
  }
  return seen.found
}

/** Goes through JSON, and knows of each text under which keys it stands. */
class Walk {
  readonly found: Unseen = { pictures: 0, endless: false }
  /** By depth: the key of the present member, and what its object says that it is. */
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
        // What stands in a list stands under the key of the list.
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

  /** An address, or an id, under a key that says what it is of. */
  #inside(depth: number, key: 'url' | 'id'): void {
    const outer = this.#keys[depth - 1]
    const picture = outer === 'image_url' || (outer === 'source' && this.#types[depth - 1] === 'image')
    if (key === 'url' && picture) this.found.pictures++
    else if (key === 'url' ? outer === 'source' : outer === 'audio') this.found.endless = true
  }

  /** Sound has more bytes than tokens. */
  #medium(kind: string): void {
    if (kind.startsWith('image/')) this.found.pictures++
    else if (kind.startsWith('application/')) this.found.endless = true
  }
}

/** A short text as it is meant, however it is spelled; nothing for a longer one. */
function word(bytes: Buffer, from: number, end: number): string {
  const text = end - from > longestWord * 6 ? '' : bytes.toString('latin1', from, end)
  if (!text.includes('\\')) return text.length > longestWord ? '' : text
  try {
    return JSON.parse(`"${text}"`) as string
  } catch {
    return ''
  }
}
