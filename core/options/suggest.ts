// Did you mean: the known word nearest to one that is not known.

/** The candidate nearest to a word by letters changed, added, left out or swapped; undefined when none is near. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > 64) return undefined
  let best: string | undefined
  let least = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= least) continue
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < least) {
      best = candidate
      least = distance
    }
  }
  return best
}

/**
 * Ends a sentence about an unknown word: `, did you mean "x"?` when something is near, else with the list if it is
 * short.
 */
export function suggestion(word: string, candidates: readonly string[]): string {
  const near = nearest(word, candidates)
  if (near !== undefined) return `, did you mean "${near}"?`
  if (candidates.length === 0) return ': none are known'
  return candidates.length <= 12 ? `: known are ${candidates.join(', ')}` : ''
}

/** Optimal string alignment: Levenshtein's distance with swapped neighbours as one change. */
function editDistance(a: string, b: string): number {
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const now = [row]
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1]
      let cost = Math.min(now[column - 1]! + 1, last[column]! + 1, last[column - 1]! + (same ? 0 : 1))
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        cost = Math.min(cost, before[column - 2]! + 1)
      }
      now.push(cost)
    }
    before = last
    last = now
  }
  return last[b.length]!
}
