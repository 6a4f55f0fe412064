// How many answers a request asks for.
import type { Fields } from './protocol.ts'

/** Bytes of a number, or of its digits in quotes. */
const longest = 24

/**
 * The number in a member, or its digits, as forms have it; 1 where there is none that could be meant. Nothing is made
 * of what is longer.
 */
export function countOf(request: Fields, key: string): number {
  const count = request.size(key) > longest ? NaN : Number(request.json(key) ?? 1)
  return Number.isSafeInteger(count) && count > 0 ? count : 1
}
