// Copies the journal in segments of a store for a backup of it, while a gateway may be writing to it.
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Committer } from '../database/committer.ts'
import { DamagedStore } from '../files/damage.ts'
import { syncDirectory } from '../files/directory.ts'
import { historyBytes } from '../log/segment.ts'
import { emptyBatch } from '../rows/batch.ts'
import { FirstSegment } from '../segments/first-segment.ts'
import { listNumbered, pathOf, reachPath } from '../segments/folder.ts'
import type { Kind, Numbered } from '../segments/folder.ts'
import { framesBehind } from '../segments/frames.ts'
import { surveyJournal } from '../segments/journal-survey.ts'
import { clearFolder, openJournal } from '../segments/state.ts'
import { Indexing } from '../writer/indexing.ts'

/** Copies a file to a path, and syncs it; returns false when it is gone. */
export type CopyFile = (from: string, to: string) => boolean

/**
 * Copies a journal with at least all that was acknowledged before this was called. Returns how many volumes it has.
 * What is copied later has at least what the files before it go on from: checkpoints before segments, segments from the
 * last one on backwards, and volumes at the end. A segment with a volume is left out, as its file may be used again
 * meanwhile.
 * @throws DamagedStore when the journal has a gap
 */
export function copyJournal(from: string, to: string, file: string, copy: CopyFile): number {
  mkdirSync(to, { recursive: true, mode: 0o700 })
  const into = ({ path }: Pick<Numbered, 'path'>): boolean => copy(path, join(to, basename(path)))
  if (existsSync(reachPath(from))) into({ path: reachPath(from) })
  for (const one of filesOf(from, 'checkpoint')) into(one)
  const sealed = new Set(filesOf(from, 'volume').map(({ number }) => number))
  for (const one of filesOf(from, 'segment').reverse()) if (!sealed.has(one.number)) into(one)
  const volumes = filesOf(from, 'volume')
  for (const one of volumes) {
    into(one)
    rmSync(pathOf(to, 'segment', one.number), { force: true })
  }
  syncDirectory(to)
  const { damage } = surveyJournal(to)
  if (damage.length > 0)
    throw DamagedStore.of(
      file,
      damage.map((one) => ({ ...one, file: join(from, basename(one.file)) }))
    )
  return volumes.length
}

function filesOf(folder: string, kind: Kind): Numbered[] {
  return listNumbered(folder).filter((one) => one.kind === kind)
}

/**
 * Brings the database of a copy up to the end of its journal, and begins a history of its own in it, so that no later
 * segment of the store goes on from it. It is no other start: what was open is. Returns how many batches the database
 * lacked.
 */
export function completeJournal(folder: string, file: string, committer: Committer): number {
  const opened = openJournal(folder, file, 'power')
  clearFolder(folder, opened)
  const { batch: last, boot, history: previous, written } = opened.fold.place
  const batches = last - committer.head.batch
  const indexing = new Indexing(committer)
  for (const frame of framesBehind(opened, committer.head.batch)) indexing.take(frame)
  const history = randomBytes(historyBytes).toString('hex')
  const start = {
    history,
    boot: Math.max(boot, 1),
    ordinal: opened.ordinal,
    previous,
    after: last
  }
  const segment = new FirstSegment(folder, start, 'power')
  const batch = emptyBatch(last + 1, written)
  try {
    segment.append(batch)
  } finally {
    segment.close()
  }
  indexing.take({ batch, head: segment.head, at: 0 })
  indexing.end()
  return batches
}
