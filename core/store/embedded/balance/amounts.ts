// Places for amounts of money in memory. They lie in few large arrays: one for each balance would take 200 bytes more,
// and with 100,000 keys much of the collector's time.

/** How many amounts an array has. It goes when nobody has a place in it any more. */
const length = 1024

let array = new BigInt64Array(0)
let next = 0

/** Places for some amounts, which are 0, beside each other in an array from `at` on. */
export function placesFor(count: number): { readonly array: BigInt64Array; readonly at: number } {
  if (next + count > array.length) {
    array = new BigInt64Array(length)
    next = 0
  }
  const at = next
  next += count
  return { array, at }
}
