// Parts of HTTP's grammar that are used both for sending and for receiving, and the white space around values.

/** A token (RFC 9110 §5.6.2), as the source of a regular expression. */
export const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
/** A whole name of a header. */
export const namePattern = new RegExp(`^${token}$`)

const space = 0x20
const tab = 0x09

/** A part of a header line without the white space around it (RFC 9110 §5.6.3). */
export function trimmed(text: string, from: number, to: number): string {
  while (from < to && isBlank(text.charCodeAt(from))) from++
  while (from < to && isBlank(text.charCodeAt(to - 1))) to--
  return text.slice(from, to)
}

/** Maps each name of a header to a value, in two spellings: in lower case and with the usual capitals. */
export function knownNames<K>(lowerNames: Iterable<string>, known: (lower: string) => K): ReadonlyMap<string, K> {
  const names = new Map<string, K>()
  for (const lower of lowerNames) {
    names.set(lower, known(lower)).set(
      lower.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase()),
      known(lower)
    )
  }
  return names
}

/** Parses a number of one to fifteen digits; undefined for any other text. */
export function digits(text: string): number | undefined {
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

function isBlank(code: number): boolean {
  return code === space || code === tab
}
