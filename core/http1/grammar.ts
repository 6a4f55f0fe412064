// Characters of HTTP's grammar that are looked for in what is sent and in what comes, and white space that says nothing.

/** A token (RFC 9110 §5.6.2), as the source of a regular expression. */
export const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
/** A whole name of a header. */
export const namePattern = new RegExp(`^${token}$`)

const space = 0x20
const tab = 0x09

/** A stretch of a header line without the white space around it (RFC 9110 §5.6.3). */
export function trimmed(text: string, from: number, to: number): string {
  while (from < to && isBlank(text.charCodeAt(from))) from++
  while (from < to && isBlank(text.charCodeAt(to - 1))) to--
  return text.slice(from, to)
}

function isBlank(code: number): boolean {
  return code === space || code === tab
}
