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

/** How most write a name of a header: in small letters, and with capitals. */
export function spellings(lower: string): readonly string[] {
  return [lower, lower.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase())]
}

/** A name of a header as it is written, with what is known of it. */
export interface KnownName {
  readonly written: string
}

/**
 * Names as they are written by most, found in a text without being cut out of it: the one that was found last among those
 * of its length and first letter is looked for first.
 */
export class KnownNames<N extends KnownName> {
  readonly #names: ReadonlyMap<string, N>
  readonly #latest: (N | undefined)[] = Array(32 * 32).fill(undefined)

  constructor(names: Iterable<N>) {
    this.#names = new Map(Array.from(names, (name) => [name.written, name]))
  }

  /** The name that stands in the text from one place to another; undefined when it is none of them. */
  find(text: string, from: number, to: number): N | undefined {
    const length = to - from
    if (length > 31) return undefined
    const place = (length << 5) | (text.charCodeAt(from) & 31)
    const latest = this.#latest[place]
    if (latest !== undefined && text.startsWith(latest.written, from)) return latest
    const name = this.#names.get(text.slice(from, to))
    if (name !== undefined) this.#latest[place] = name
    return name
  }
}

/** A number of up to fifteen digits, and nothing beside them; undefined for anything else. */
export function digits(text: string): number | undefined {
  const { length } = text
  if (length === 0 || length > 15) return undefined
  let number = 0
  for (let i = 0; i < length; i++) {
    const digit = text.charCodeAt(i) - 48
    if (digit < 0 || digit > 9) return undefined
    number = number * 10 + digit
  }
  return number
}

function isBlank(code: number): boolean {
  return code === space || code === tab
}
