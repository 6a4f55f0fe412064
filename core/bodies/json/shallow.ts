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
 * The text with the number of its bytes in the place of each list and object that is nested deeper than seven levels,
 * or than as many as have 50 000 values together. Undefined when there are more on the first one. The text must be
 * valid JSON.
 */
export function shallowOf(bytes: Buffer): Buffer | undefined {
  const values = new Uint32Array(keptLevels)
  const kept = cutBelow(keptLevels, bytes, values)
  let [levels, left] = [0, mostValues]
  while (levels < keptLevels && left >= values[levels]!) left -= values[levels++]!
  if (levels === keptLevels) return kept
  return levels === 0 ? undefined : cutBelow(levels, bytes, values)
}

/** Cuts what is nested deeper. `values` gets how many there are on each of these levels. */
function cutBelow(levels: number, bytes: Buffer, values: Uint32Array): Buffer {
  const pieces: Buffer[] = []
  let [kept, depth, all, left] = [0, 0, 0, 0]
  values.fill(0)
  const count = (): void => {
    values[depth - 1]!++
    all++
  }
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]!) {
      case quote:
        at = stringEnd(bytes, at + 1)
        break
      case 0x7b:
      case 0x5b:
        depth++
        if (depth <= levels) count()
        // What has too many values is not kept, and has as many pieces.
        else if (depth === levels + 1 && all <= mostValues) pieces.push(bytes.subarray(kept, (left = at)))
        break
      case 0x7d:
      case 0x5d:
        if (depth-- === levels + 1 && all <= mostValues) pieces.push(Buffer.from(String((kept = at + 1) - left)))
        break
      case 0x2c:
        if (depth <= levels) count()
        break
      default:
    }
  }
  return pieces.length === 0 ? bytes : Buffer.concat([...pieces, bytes.subarray(kept)])
}
