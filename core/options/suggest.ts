// Finds the known word that is most similar to an unknown one, for "did you mean".

/**
 * The candidate that is nearest to a word, counting letters changed, added, left out or swapped. Undefined when none is
 * near.
 */
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
 * The end of a sentence about an unknown word: `, did you mean "x"?` when a candidate is near, otherwise the list of
 * candidates if it is short.
 */
export function suggestion(word: string, candidates: readonly string[]): string {
  const near = nearest(word, candidates)
  if (near !== undefined) return `, did you mean "${near}"?`
  if (candidates.length === 0) return ': none are known'
  return candidates.length <= 16 ? `: known are ${candidates.join(', ')}` : ''
}

/** Optimal string alignment: Levenshtein distance in which swapping two neighbours counts as one change. */
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
