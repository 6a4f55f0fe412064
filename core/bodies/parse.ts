// Parses JSON with escapes in its keys, of which V8 reads some wrong.
// https://github.com/nodejs/node/issues/63785: where an object before it had the keys `h` and `\u0`, `JSON.parse` takes
// the second key of `{"h":1,"\u006dod":2}` for `\u0`, as that is how it begins. Whoever sends the one could change what
// is read of the other, and hide a member from one reader that a lens has found.

/** A number or a word. */
const scalar = /[^\s,\]}]+/y
const space = /\s*/y

/**
 * The value of a JSON text, as `JSON.parse` should give it. `number`: what to make of a number as it is written.
 * @throws SyntaxError when it is no JSON; RangeError when it is nested deeper than the stack
 */
export function parse(text: string, number: (written: string) => unknown = Number): unknown {
  return hasEscapedKey(text) ? parseStrictly(text, number) : JSON.parse(text)
}

/** Whether a key of the objects in a JSON text is written with an escape. Looks at nothing but strings with escapes. */
export function hasEscapedKey(text: string): boolean {
  for (let at = text.indexOf('\\'); at !== -1;) {
    // The first escape of a string: no quote stands between it and the one that opens the string.
    const end = stringEnd(text, at)
    if (text[skip(space, text, end + 1)] === ':') return true
    at = text.indexOf('\\', end + 1)
  }
  return false
}

/** Likewise, without `JSON.parse` for anything but strings; for every text. */
export function parseStrictly(text: string, number: (written: string) => unknown = Number): unknown {
  // From here on it is known to be JSON.
  JSON.parse(text)
  let at = 0
  const string = (): string => {
    const from = at
    at = stringEnd(text, from + 1) + 1
    return JSON.parse(text.slice(from, at)) as string
  }
  const value = (): unknown => {
    at = skip(space, text, at)
    switch (text[at]) {
      case '"':
        return string()
      case '[':
        return list()
      case '{':
        return object()
    }
    const from = at
    at = skip(scalar, text, at)
    const written = text.slice(from, at)
    return written === 'null' ? null : written === 'true' || written === 'false' ? written === 'true' : number(written)
  }
  /** Goes to what follows; false when that is the closing bracket. */
  const more = (closing: string): boolean => {
    at = skip(space, text, at)
    const ends = text[at] === closing
    if (ends || text[at] === ',') at++
    return !ends
  }
  const list = (): unknown[] => {
    const made: unknown[] = []
    for (at++; more(']');) made.push(value())
    return made
  }
  const object = (): Record<string, unknown> => {
    const made: Record<string, unknown> = {}
    for (at++; more('}');) {
      at = skip(space, text, at)
      const key = string()
      at = skip(space, text, at) + 1
      const member = value()
      if (key === '__proto__')
        Object.defineProperty(made, key, { value: member, enumerable: true, configurable: true, writable: true })
      else made[key] = member
    }
    return made
  }
  return value()
}

/** The place of the closing quote; the end of the text when there is none. `from`: a place in the string. */
function stringEnd(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at !== -1; at = text.indexOf('"', at + 1)) {
    let escapes = 0
    while (at - escapes > from && text[at - escapes - 1] === '\\') escapes++
    if (escapes % 2 === 0) return at
  }
  return text.length
}

/** The place behind what a sticky pattern matches there. */
function skip(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from
  return pattern.test(text) ? pattern.lastIndex : from
}
