// What clients saw against the books of a gateway that was killed or whose disk failed.
import type { Test } from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { nanoCost } from '../kit/oracle.ts'
import { eventually, figures } from '../kit/probe.ts'
import type { Running } from './process.ts'
import { endings, journal, prices, rows } from './rig.ts'
import type { Entry, Seen } from './rig.ts'

/** Waits until nothing runs, and the database has all that ran. */
export async function quiet(t: Test, running: Pick<Running, 'adminUrl'>): Promise<void> {
  await eventually(async () => (await figures(t, running)).get('sluice_exchanges_running') === 0, 10_000)
  await applied(running)
}

/** A listing shows all that came before it, so it waits until the database does. */
export async function applied({ adminUrl }: Pick<Running, 'adminUrl'>): Promise<void> {
  await (await fetch(`${adminUrl}/admin/v1/requests?limit=1`)).arrayBuffer()
}

/**
 * The problems: an end that was seen and is not charged as the upstream counted, a byte that was seen and is in no
 * book, two ends of one.
 */
function audit(seen: readonly Seen[], entries: readonly Entry[]): unknown[] {
  const { ends, twice } = endings(entries)
  const problems: unknown[] = twice.map((id) => ({ id, problem: 'ended twice' }))
  for (const { id, plan, model, status, ended } of seen) {
    if (id === undefined) continue
    const end = ends.get(id)
    if (!end) {
      // An error is all that its client saw: of that nothing need be on disk.
      if (status === 200) problems.push({ id, plan, problem: 'shown, and not in the journal' })
    } else if (ended) {
      const due = nanoCost({ ...plan.units, request: 1 }, prices[model]!)
      if (end.kind !== 'settle' || end.source !== 'upstream' || end.amount !== due)
        problems.push({ id, plan, due, end })
    } else if (end.source === 'recovered' && end.amount > end.reserved)
      problems.push({ id, plan, problem: 'recovered for more than was held', end })
  }
  return problems
}

/** The whole audit of a store that no process has open: what was seen, what is left over, and the book itself. */
export function checkBooks(t: Test, file: string, seen: readonly Seen[]): Entry[] {
  const entries = journal(file)
  t.same(
    audit(seen, entries).slice(0, 5),
    [],
    'every end that a client saw is charged once, with what the upstream counted'
  )
  t.same(rows(file, 'SELECT request_id FROM reservation'), [], 'nothing is held')
  t.same(rows(file, 'SELECT scope, pending FROM balance WHERE pending <> 0'), [], 'nor pending')
  t.same(verify(file), [], 'the book is in order')
  return entries
}

/** How long starts took, as a figure to report: how busy the machine is decides too much of it for an assertion. */
export function serving(starts: readonly number[]): string {
  const sorted = [...starts].sort((a, b) => a - b).map(Math.round)
  return `from start to serving ${sorted[sorted.length >> 1]} ms, at most ${sorted.at(-1)} ms`
}
