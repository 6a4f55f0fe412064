// Names of members: those that come again and again are compared with the bytes instead of being made of them.

/** Names up to this length are kept, as many as there are places. */
const longest = 32
const places = 256
const kept: string[] = Array<string>(places).fill('')

/** The name that bytes from `start` to `end` spell, without its quotes. `plain`: in ASCII and without escapes. */
export function keyName(bytes: Buffer, start: number, end: number, plain: boolean): string {
  if (!plain) return spelled(bytes.toString('utf8', start, end))
  const length = end - start
  if (length === 0 || length > longest) return bytes.toString('latin1', start, end)
  // All that chat requests and answers commonly have get places of their own.
  const place = (length * 4 + bytes[start + (length >> 1)]! * 9 + bytes[end - 1]!) % places
  const name = kept[place]!
  return name.length === length && matches(bytes, start, name) ? name : (kept[place] = bytes.toString('latin1', start, end))
}

function matches(bytes: Buffer, start: number, name: string): boolean {
  for (let i = 0; i < name.length; i++) if (bytes[start + i] !== name.charCodeAt(i)) return false
  return true
}

function spelled(text: string): string {
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text
}
