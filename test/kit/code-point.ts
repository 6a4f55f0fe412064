// Any character, as the unit of random texts.
import fc from 'fast-check'

/** Code points that are no characters of their own: halves of pairs. */
const [first, count] = [0xd800, 0x800]

/**
 * Any code point. It is what fast-check calls `binary`, of which that makes a table of a million entries first, in one
 * second of CPU time.
 */
export const codePoint = fc.nat({ max: 0x10ffff - count }).map(
  (at) => String.fromCodePoint(at < first ? at : at + count),
  (text) => {
    const [one = '', ...more] = String(text)
    const point = one.codePointAt(0)
    if (point === undefined || more.length > 0) throw new Error('it is not one code point')
    return point < first ? point : point - count
  }
)
