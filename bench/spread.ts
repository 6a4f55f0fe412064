// The median and the extremes of a figure over the rounds.

/** The spread of one figure, with one value per round. */
export interface Spread {
  median: number
  min: number
  max: number
}

/** The spread of at least one value. */
export function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return {
    median: sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2,
    min: sorted[0]!,
    max: sorted.at(-1)!
  }
}

/** Formats a spread, such as `31.2 (30.9–33.0)`. */
export function show({ median, min, max }: Spread, digits: number): string {
  return `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`
}

/** The least-squares slope through points of (x, y). */
export function slope(points: readonly (readonly [number, number])[]): number {
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / points.length
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / points.length
  const xy = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0)
  const xx = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0)
  return xy / xx
}
