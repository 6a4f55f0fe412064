// What a large JSON text says near its top, without what is nested deep: that is all that most readers look for, and
// what is nested deep takes most of the time to make values of.
import { stringEnd } from '../elements.ts'

const quote = 0x22
const nothing = Buffer.from('null')

/** Levels that are kept: the arguments of a call in a part of a message in a choice of an answer stand on the next. */
const keptLevels = 7
/** Values that are kept: no reader looks for more. */
const mostValues = 50_000

/**
 * The text with `null` in the place of each list and object that is nested deeper than seven; undefined when it has
 * more than 50 000 values even so. The text is JSON, which is not checked again.
 */
export function shallowOf(bytes: Buffer): Buffer | undefined {
  const pieces: Buffer[] = []
  let [kept, depth, values] = [0, 0, 0]
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]!) {
      case quote:
        at = stringEnd(bytes, at + 1)
        break
      case 0x7b:
      case 0x5b:
        if (++depth === keptLevels + 1) pieces.push(bytes.subarray(kept, at), nothing)
        if (depth <= keptLevels) values++
        break
      case 0x7d:
      case 0x5d:
        if (depth-- === keptLevels + 1) kept = at + 1
        break
      case 0x2c:
        if (depth <= keptLevels && ++values > mostValues) return undefined
        break
      default:
    }
  }
  return pieces.length === 0 ? bytes : Buffer.concat([...pieces, bytes.subarray(kept)])
}
