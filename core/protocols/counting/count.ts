// Reads how many answers a request asks for.
import { asNumber } from '../object.ts'
import type { Fields } from '../protocol.ts'

/** The longest number that is read, in bytes, quotes included. */
const longest = 24

/** The number in a member, or its digits in a string, as in forms; 1 when there is no sensible number. */
export function countOf(request: Fields, key: string): number {
  const count = request.size(key) > longest ? NaN : asNumber(request.json(key))
  return Number.isSafeInteger(count) && count > 0 ? count : 1
}
