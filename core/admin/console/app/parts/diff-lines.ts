// Which lines two texts differ in.

/** A line of a diff. `skip` stands for unchanged lines that are left out. */
export interface DiffLine {
  readonly kind: 'same' | 'out' | 'in' | 'skip'
  readonly text: string
}

/** The most cells of the comparison: above, the middle of both texts counts as changed. */
const most = 4_000_000

/** Compares two texts. Lines further than three from any change are left out. */
export function diffOf(before: string, after: string): DiffLine[] {
  const [old, now] = [before.split('\n'), after.split('\n')]
  let start = 0
  while (start < old.length && start < now.length && old[start] === now[start]) start++
  let end = 0
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end++
  const middle = changesIn(old.slice(start, old.length - end), now.slice(start, now.length - end))
  const same = (text: string): DiffLine => ({ kind: 'same', text })
  return folded([...old.slice(0, start).map(same), ...middle, ...old.slice(old.length - end).map(same)])
}

/** The shortest way from one list of lines to another, by their longest common part. */
function changesIn(old: readonly string[], now: readonly string[]): DiffLine[] {
  const lines: DiffLine[] = []
  const width = now.length + 1
  if (old.length * now.length > most)
    return [
      ...old.map((text) => ({ kind: 'out' as const, text })),
      ...now.map((text) => ({ kind: 'in' as const, text }))
    ]
  const common = new Uint32Array((old.length + 1) * width)
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      common[i * width + j] =
        old[i] === now[j]
          ? common[(i + 1) * width + j + 1]! + 1
          : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!)
  let [i, j] = [0, 0]
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push({ kind: 'same', text: old[i]! })
      i++
      j++
    } else if (i < old.length && (j >= now.length || common[(i + 1) * width + j]! >= common[i * width + j + 1]!))
      lines.push({ kind: 'out', text: old[i++]! })
    else lines.push({ kind: 'in', text: now[j++]! })
  }
  return lines
}

function folded(lines: readonly DiffLine[]): DiffLine[] {
  const near = new Set<number>()
  for (const [place, { kind }] of lines.entries())
    if (kind !== 'same') for (let by = -3; by <= 3; by++) near.add(place + by)
  const shown: DiffLine[] = []
  let skipped = 0
  const skip = (): void => {
    if (skipped > 0) shown.push({ kind: 'skip', text: `${skipped} unchanged ${skipped === 1 ? 'line' : 'lines'}` })
    skipped = 0
  }
  for (const [place, line] of lines.entries()) {
    if (!near.has(place)) {
      skipped++
      continue
    }
    skip()
    shown.push(line)
  }
  skip()
  return shown
}
