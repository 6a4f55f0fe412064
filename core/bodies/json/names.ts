// Short strings that come again and again, as keys and models do: compared with the bytes instead of being made of
// them.

/** A string, and what is looked for in keys. */
export interface Name {
  readonly text: string
  /**
   * It has a character that is none of the small letters, digits, `_`, `-` and `.`: another reader may take it for
   * another name.
   */
  readonly odd: boolean
}

/** Strings up to this length are kept, as many as there are places. */
const longest = 32
const places = 256
const kept = Array<Name>(places).fill({ text: '', odd: false })
const oddPattern = /[^a-z0-9_.-]/

/** What bytes in ASCII from `start` to `end` spell. */
export function nameAt(bytes: Buffer, start: number, end: number): Name {
  const length = end - start
  if (length === 0 || length > longest) return named(bytes.toString('latin1', start, end))
  // All that chat requests and answers commonly have for keys get places of their own.
  const place = (length * 4 + bytes[start + (length >> 1)]! * 9 + bytes[end - 1]!) % places
  const name = kept[place]!
  return name.text.length === length && matches(bytes, start, name.text)
    ? name
    : (kept[place] = named(bytes.toString('latin1', start, end)))
}

/** A name that is not looked for among those that are kept. */
export function named(text: string): Name {
  return { text, odd: oddPattern.test(text) }
}

function matches(bytes: Buffer, start: number, name: string): boolean {
  for (let i = 0; i < name.length; i++) if (bytes[start + i] !== name.charCodeAt(i)) return false
  return true
}
