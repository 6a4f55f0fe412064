// Takes a store with a commit log over into one whose journal is in segments, at a start.
import { backUp } from './backup.ts'
import { convert } from './conversion.ts'
import { hasLog } from './has-log.ts'
import { wholeness } from './verify/invariants.ts'
import { folderFor } from './restore.ts'
import { toldAs } from './tell.ts'
import type { Tell } from './tell.ts'
import { verifyInThreads } from './verify/verify.ts'
import { Ownership } from '../files/lock.ts'
import type { Logger } from '../../../telling/log.ts'
import { contentsOf, dropStaged, pendingSwap, stagedPath, swap } from '../files/swap.ts'

/**
 * Copies a store that was closed, writes the journal of the copy and verifies it, and puts it in the place of the
 * store, whose files stay in a folder beside it. Killed at any moment, it leaves one of the two, or is completed by
 * whoever owns the store next. Returns the folder; undefined when one that was broken off has been completed since the
 * store was found to have a log. `now` is in Unix milliseconds; `owned` is called when nobody else has the store.
 * @throws Error when the copy does not have what the store has; then nothing has changed
 */
export async function takeOver(
  given: string,
  now: number,
  tell: Tell = () => {},
  owned: () => void = () => {}
): Promise<string | undefined> {
  const owner = Ownership.take(given)
  const { file } = owner
  try {
    if (!hasLog(file)) return undefined
    owned()
    const staged = stagedPath(file)
    await backUp(file, staged, { tell })
    convert(staged, toldAs(tell, 'writing the journal'))
    tell('verifying the journal')
    const breaches = await verifyInThreads(staged)
    const [first] = breaches.filter(({ invariant }) => wholeness.has(invariant) || proved.has(invariant))
    if (first)
      throw new Error(
        `${file} cannot be taken over: ${first.invariant} ${first.row} ${first.message}. Nothing was changed`
      )
    const names = contentsOf(file)
    const aside = folderFor(file, now)
    owner.loosen()
    swap(file, { source: file, aside, names })
    return aside
  } finally {
    if (!pendingSwap(file)) dropStaged(file)
    owner.release()
  }
}

/** Says that it was done, and where the old files are; nothing when there was nothing to do. */
export function tookOver(log: Logger, store: string, aside: string | undefined): void {
  if (aside !== undefined)
    log.warn('the store was taken over: its journal is in segments now', { store, put_aside: aside })
}

/** What the journal must make, beside being what was written. */
const proved: ReadonlySet<string> = new Set(['I1', 'I2', 'I3'])
