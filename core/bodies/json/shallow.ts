// Shortens a large JSON text to what it says near its top: most readers look for nothing else, and parsing what is
// nested deep takes most of the time.
import { stringEnd } from '../elements.ts'

const quote = 0x22

/**
 * How many levels are kept. The arguments of a call, in a part of a message in a choice of an answer, are on the next
 * one.
 */
const keptLevels = 7
/** The most values that are kept. No reader needs more. */
const mostValues = 50_000

/**
 * The text with the number of its bytes in the place of each list and object that is nested deeper than seven levels.
 * Undefined when more than 50 000 values would be left. The text must be valid JSON.
 */
export function shallowOf(bytes: Buffer): Buffer | undefined {
  const pieces: Buffer[] = []
  let [kept, depth, values, left] = [0, 0, 0, 0]
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]!) {
      case quote:
        at = stringEnd(bytes, at + 1)
        break
      case 0x7b:
      case 0x5b:
        if (++depth === keptLevels + 1) pieces.push(bytes.subarray(kept, (left = at)))
        if (depth <= keptLevels) values++
        break
      case 0x7d:
      case 0x5d:
        if (depth-- === keptLevels + 1) pieces.push(Buffer.from(String((kept = at + 1) - left)))
        break
      case 0x2c:
        if (depth <= keptLevels && ++values > mostValues) return undefined
        break
      default:
    }
  }
  return pieces.length === 0 ? bytes : Buffer.concat([...pieces, bytes.subarray(kept)])
}
