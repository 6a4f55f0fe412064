// How many elements a list has, without making anything of them.
import type { Lens } from './lens.ts'

const quote = 0x22
const backslash = 0x5c

/** Of a member that is a list; undefined when it is absent or of another type. */
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
    // [ and {, ] and }, then commas.
    else if (byte === 0x5b || byte === 0x7b) depth++
    else if (byte === 0x5d || byte === 0x7d) depth--
    else if (byte === 0x2c && depth === 1) commas++
  }
  const number = first !== undefined && (first === 0x2d || (first >= 0x30 && first <= 0x39))
  return { count: first === 0x5d || first === undefined ? 0 : commas + 1, first: number ? 'number' : 'other' }
}

/** Of the closing quote of a string that begins at a place; the end of the bytes when there is none. */
export function stringEnd(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(quote, from); at !== -1; at = bytes.indexOf(quote, at + 1)) {
    let escapes = 0
    while (at - escapes > from && bytes[at - escapes - 1] === backslash) escapes++
    if (escapes % 2 === 0) return at
  }
  return bytes.length
}
