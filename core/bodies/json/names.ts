// Short strings that come again and again, as keys and models do: compared with the bytes instead of being made of them.

/** Strings up to this length are kept, as many as there are places. */
const longest = 32
const places = 256
const kept = Array<string>(places).fill('')

/** What bytes in ASCII from `start` to `end` spell. */
export function nameAt(bytes: Buffer, start: number, end: number): string {
  const length = end - start
  if (length === 0 || length > longest) return bytes.toString('latin1', start, end)
  // All that chat requests and answers commonly have for keys get places of their own.
  const place = (length * 4 + bytes[start + (length >> 1)]! * 9 + bytes[end - 1]!) % places
  const name = kept[place]!
  return name.length === length && matches(bytes, start, name) ? name : (kept[place] = bytes.toString('latin1', start, end))
}

function matches(bytes: Buffer, start: number, name: string): boolean {
  for (let i = 0; i < name.length; i++) if (bytes[start + i] !== name.charCodeAt(i)) return false
  return true
}
