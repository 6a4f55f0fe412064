// Makes vectors for embeddings.
import { Dice } from './prose.ts'

const sides = 2 ** 24

/** A vector of unit length that depends only on the digest: at least eight hexadecimal digits. */
export function vectorOf(digest: string, dimensions: number): Float32Array {
  const dice = new Dice(Number.parseInt(digest.slice(0, 8), 16))
  const vector = Float32Array.from({ length: dimensions }, () => dice.below(sides) / (sides / 2) - 1)
  const length = Math.hypot(...vector) || 1
  return vector.map((value) => value / length)
}
