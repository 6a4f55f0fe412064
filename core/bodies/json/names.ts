// Short strings that recur, such as keys and models: compared with the bytes, instead of being decoded each time.

/** A string, and what has to be known of it when it is a key. */
export interface Name {
  readonly text: string
  /**
   * Whether it has other characters than small letters, digits, `_`, `-` and `.`: another reader may take it for
   * another name.
   */
  readonly odd: boolean
}

/** The longest strings that are cached, and how many. */
const longest = 32
const places = 256
const kept = Array<Name>(places).fill({ text: '', odd: false })
const oddPattern = /[^a-z0-9_.-]/

/** The name that ASCII bytes from `start` to `end` spell. */
export function nameAt(bytes: Buffer, start: number, end: number): Name {
  const length = end - start
  if (length === 0 || length > longest) return named(bytes.toString('latin1', start, end))
  // With this hash, the usual keys of chat requests and answers do not collide.
  const place = (length * 4 + bytes[start + (length >> 1)]! * 9 + bytes[end - 1]!) % places
  const name = kept[place]!
  return name.text.length === length && matches(bytes, start, name.text)
    ? name
    : (kept[place] = named(bytes.toString('latin1', start, end)))
}

/** A name that is not cached. */
export function named(text: string): Name {
  return { text, odd: oddPattern.test(text) }
}

function matches(bytes: Buffer, start: number, name: string): boolean {
  for (let i = 0; i < name.length; i++) if (bytes[start + i] !== name.charCodeAt(i)) return false
  return true
}
