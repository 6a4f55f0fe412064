// Counts the elements of a JSON list without parsing them.
import type { Lens } from './lens.ts'

const quote = 0x22
const backslash = 0x5c

/** How many elements a member's list has, and whether the first is a number; undefined when the member is no list. */
export function elementsOf(lens: Lens, key: string): { count: number; first: 'number' | 'other' } | undefined {
  if (lens.type(key) !== 'array') return undefined
  const list = lens.slice(key)!
  let depth = 0
  let commas = 0
  let first: number | undefined
  for (let at = 0; at < list.length; at++) {
    const byte = list[at]!
    if (depth === 1 && first === undefined && byte > 0x20) first = byte
    if (byte === quote) at = stringEnd(list, at + 1)
    // The brackets that open, the brackets that close, and commas.
    else if (byte === 0x5b || byte === 0x7b) depth++
    else if (byte === 0x5d || byte === 0x7d) depth--
    else if (byte === 0x2c && depth === 1) commas++
  }
  const number = first !== undefined && (first === 0x2d || (first >= 0x30 && first <= 0x39))
  return { count: first === 0x5d || first === undefined ? 0 : commas + 1, first: number ? 'number' : 'other' }
}

/**
 * The place of a string's closing quote. `from`: a place inside the string. The end of the bytes when it is not closed.
 */
export function stringEnd(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(quote, from); at !== -1; at = bytes.indexOf(quote, at + 1)) {
    let escapes = 0
    while (at - escapes > from && bytes[at - escapes - 1] === backslash) escapes++
    if (escapes % 2 === 0) return at
  }
  return bytes.length
}
