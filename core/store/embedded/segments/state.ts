// Reads the frames that a survey found, and folds them: the state of a store at its start.
import { readFrames } from '../log/frame-reader.ts'
import type { Frame } from '../log/frame-reader.ts'
import { DamagedStore } from '../files/damage.ts'
import type { Durability } from '../files/sqlite.ts'
import { withFile } from '../files/reading.ts'
import { rmSync } from 'node:fs'
import { Checkpoints } from './checkpoint.ts'
import type { Fold } from './fold.ts'
import { prepareFolder } from './folder.ts'
import { surveyJournal } from './journal-survey.ts'
import type { JournalSurvey, Stretch } from './journal-survey.ts'

/** The journal of a store that nobody writes yet. */
export interface OpenedJournal extends Pick<JournalSurvey, 'segments' | 'volumes' | 'unused'> {
  readonly fold: Fold
  readonly checkpoints: Checkpoints
  /** A number that no segment has had. */
  readonly ordinal: number
  /** How many bytes of frames are behind the checkpoint. */
  readonly tail: number
  /** What is damaged, without anything being lost. */
  readonly passed: readonly string[]
}

/**
 * Opens the journal of a folder: surveys it, and folds what is behind the newest sound checkpoint.
 * @throws DamagedStore when frames are missing
 */
export function openJournal(folder: string, file: string, durability: Durability): OpenedJournal {
  return foldFound(surveyJournal(folder), folder, file, durability)
}

/**
 * Makes the folder ready for what is written next: removes what a kill left unfinished. Killed anywhere, the next start
 * finds the same.
 */
export function clearFolder(folder: string, { unused }: Pick<OpenedJournal, 'unused'>): void {
  prepareFolder(folder)
  for (const path of unused) rmSync(path, { force: true })
}

/**
 * Reads the journal of a store that goes on being written, up to the batch `last`, which was acknowledged.
 * @throws Error when it is not there
 */
export function resumeJournal(folder: string, file: string, durability: Durability, last: number): OpenedJournal {
  const opened = foldFound(surveyJournal(folder, last), folder, file, durability)
  const { batch } = opened.fold.place
  if (batch === last) return opened
  throw new Error(`the journal in ${folder} is damaged: it ends with batch ${batch} instead of ${last}`)
}

/** Folds what a survey found behind a checkpoint. */
function foldFound(found: JournalSurvey, folder: string, file: string, durability: Durability): OpenedJournal {
  const { fold, stretches, segments, volumes, sound, ordinal, unused, passed, damage } = found
  if (damage.length > 0) throw DamagedStore.of(file, damage)
  let tail = 0
  for (const stretch of stretches) tail += foldStretch(fold, stretch)
  return {
    fold,
    segments,
    volumes,
    checkpoints: new Checkpoints(folder, durability, sound),
    ordinal,
    unused,
    tail,
    passed: passed.map(({ file: path, text }) => `${path} ${text}`)
  }
}

/** Folds the frames of a stretch. Returns their bytes. */
function foldStretch(fold: Fold, stretch: Stretch): number {
  let length = 0
  readStretch(stretch, ({ batch, bytes }) => {
    fold.add(batch, stretch.head)
    length += bytes.length
  })
  if (fold.place.batch !== stretch.last)
    throw new Error(
      `segment ${stretch.head.ordinal} changed while it was read: it ended with batch ${stretch.last}, and now with ${fold.place.batch}`
    )
  return length
}

/** Calls `use` with each frame of a stretch, in order. */
export function readStretch({ head, source, first, last, from }: Stretch, use: (frame: Frame) => void): void {
  const feed = (frames: Iterable<Frame>): void => {
    for (const frame of frames) {
      if (frame.batch.number > last) return
      use(frame)
    }
  }
  if (typeof source === 'string') withFile(source, (fd) => feed(readFrames(fd, head.history, first - 1, from)))
  else feed(source.frames(first - 1))
}
