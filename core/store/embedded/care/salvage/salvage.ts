// Repairs a store whose journal in segments is damaged: a mended one is made beside it, verified, and takes its place.
import { closeSync, copyFileSync, fsyncSync, linkSync, mkdirSync, openSync, rmdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Damage } from '../../files/damage.ts'
import { syncDirectory } from '../../files/directory.ts'
import { contentsOf, dropStaged, pendingSwap, stagedPath, swap } from '../../files/swap.ts'
import { volumeFolder } from '../../journal/volume.ts'
import { listNumbered } from '../../segments/folder.ts'
import { surveyJournal } from '../../segments/journal-survey.ts'
import { makeAnew } from '../journal-repair.ts'
import { toldAs } from '../tell.ts'
import type { Tell } from '../tell.ts'
import { toldOf } from '../verify/checking.ts'
import { wholeness } from '../verify/invariants.ts'
import { verify } from '../verify/verify.ts'
import { mend } from './mending.ts'
import type { Mended } from './mending.ts'
import { remainsIn } from './remains.ts'
import { hear } from './witness.ts'

/** What is wrong with a journal, and what can be saved of it. */
export interface Salvage extends Mended {
  readonly damage: readonly Damage[]
}

/**
 * Looks at every file of a journal, and changes nothing; undefined when nothing is wrong with it.
 * @throws Error when what is left contradicts itself
 */
export function planSalvage(file: string, tell: Tell): Salvage | undefined {
  const { damage } = surveyJournal(volumeFolder(file))
  const mended = gather(file, undefined, 0, tell)
  const found = damage.length > 0 ? damage : mended.broken
  return found.length === 0 && mended.loss.gaps.length === 0 ? undefined : { ...mended, damage: found }
}

/** The names of a store that leave for `aside`, within its folder. */
export function leaving(file: string): string[] {
  const stay = new Set(['.results', '.log0', '.log1'].map((ending) => `${basename(file)}${ending}`))
  return contentsOf(file).filter((name) => !stay.has(name))
}

/**
 * Makes the mended journal and its database, and puts them in place of what is there, which goes to the empty folder
 * `aside`.
 * Killed at any moment, it leaves one of the two, or is completed by whoever owns the store next.
 * @throws Error when what was made is not whole; then nothing has changed
 */
export function salvage(file: string, aside: string, now: number, tell: Tell): void {
  const staged = stagedPath(file)
  const folder = volumeFolder(staged)
  try {
    mkdirSync(folder, { mode: 0o700 })
    const { kept, keptTo } = gather(file, folder, now, tell)
    const checkpoints = listNumbered(volumeFolder(file)).filter(
      ({ kind, number }) => kind === 'checkpoint' && number <= keptTo
    )
    for (const path of [...kept, ...checkpoints.map((one) => one.path)]) keep(path, join(folder, basename(path)))
    for (const { path } of listNumbered(folder)) sync(path)
    syncDirectory(folder)
    makeAnew(staged, toldAs(tell, 'making the database anew'))
    const [wrong] = verify(staged, toldOf(tell)).filter(({ invariant }) => wholeness.has(invariant))
    if (wrong)
      throw new Error(
        `${file} cannot be mended: ${wrong.invariant} ${wrong.row} ${wrong.message}. Bring back a backup (\`sluice ledger backup\` makes them); nothing was changed`
      )
    syncDirectory(dirname(file))
    swap(file, { source: file, aside, names: leaving(file) })
  } catch (error) {
    if (!pendingSwap(file)) rmdirSync(aside)
    throw error
  } finally {
    if (!pendingSwap(file)) dropStaged(file)
  }
}

function gather(file: string, folder: string | undefined, now: number, tell: Tell): Mended {
  const testimony = hear(file)
  const remains = remainsIn(volumeFolder(file), testimony.starts, (done, of) =>
    tell('looking for what is whole', { done, of, unit: 'files' })
  )
  const told = toldAs(tell, folder === undefined ? 'reading the journal' : 'writing the journal')
  const batches = remains.at(-1)?.runs.at(-1)?.last ?? 0
  try {
    return mend(remains, testimony, folder, now, (done) => told(done, Math.max(done, batches)))
  } catch (error) {
    throw new Error(
      `what is left of ${volumeFolder(file)} contradicts itself: ${(error as Error).message}. Bring back a backup (\`sluice ledger backup\` makes them); nothing was changed`,
      { cause: error }
    )
  }
}

/** Volumes and checkpoints, which nobody writes to again, can be in both places; a segment's file is used again. */
function keep(from: string, to: string): void {
  if (basename(from).startsWith('segment')) return copyFileSync(from, to)
  try {
    linkSync(from, to)
  } catch {
    copyFileSync(from, to)
  }
}

function sync(path: string): void {
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
