// Seals segments: makes the volume of one that is full, and proves that it has what the segment had.
import { basename } from 'node:path'
import { openSync, closeSync } from 'node:fs'
import type { Durability } from '../files/sqlite.ts'
import { readFrames } from '../log/frame-reader.ts'
import type { Frame } from '../log/frame-reader.ts'
import { Chain } from './chain.ts'
import type { Place } from './chain.ts'
import type { Fold } from './fold.ts'
import { pathOf } from './folder.ts'
import type { Stretch } from './journal-survey.ts'
import { Summary } from './summary.ts'
import { Volume, VolumeDamage, writeVolume } from './volume.ts'

/**
 * Folds a segment that has its successor, and makes its volume. The state must be that in front of its first frame, and
 * is that behind its last one when this returns: the volume is on disk and was read back then.
 * @throws VolumeDamage when what was read back is not what was written
 */
export function sealStretch(folder: string, fold: Fold, stretch: Stretch, durability: Durability): Volume {
  const summary = new Summary(stretch.head, fold.place)
  const frames = folded(fold, stretch, summary)
  const volume = new Volume(writeVolume(folder, stretch.head.ordinal, frames, summary, durability))
  const problem = checkVolume(volume)
  if (problem !== undefined) throw new VolumeDamage(`${volume.path} ${problem}`)
  return volume
}

/** Yields the frames of a segment, each after it was folded and added to its summary. */
function* folded(fold: Fold, { head, source, first, last, from }: Stretch, summary: Summary): Generator<Frame> {
  const fd = openSync(source as string, 'r')
  try {
    for (const frame of readFrames(fd, head.history, first - 1, from)) {
      if (frame.batch.number > last) return
      fold.add(frame.batch, head)
      summary.add(frame.batch, fold.place)
      yield frame
    }
  } finally {
    closeSync(fd)
  }
}

/**
 * Reads a volume as a whole, and computes its footer again: hashes of rows, sums, numbers. Says what is wrong, as the
 * rest of a sentence that begins with its name; undefined when nothing is.
 */
export function checkVolume(volume: Volume): string | undefined {
  const { contents } = volume
  const own = basename(pathOf('', 'volume', contents.ordinal))
  if (basename(volume.path) !== own) return `is volume ${contents.ordinal} under the name of another`
  if (!volume.whole) return 'is not what was written: its SHA-256 differs'
  const place = placeBefore(volume)
  const summary = new Summary(contents, place)
  const chain = new Chain(place)
  try {
    for (const { batch } of volume.frames(0)) {
      chain.add(batch, contents)
      summary.add(batch, chain.place)
    }
  } catch (error) {
    return (error as Error).message
  }
  const found = summary.contents
  for (const [name, value] of Object.entries(found))
    if (value !== contents[name as keyof typeof contents])
      return `says ${name} ${contents[name as keyof typeof contents]}, and has ${value}`
  const sums = [...summary.charged].flatMap(({ scope, window, posted }) => [scope, window, posted])
  return sums.every((value, i) => value === volume.charged[i]) && sums.length === volume.charged.length
    ? undefined
    : 'has other sums than its rows add up to'
}

/** The place in front of the first frame of a volume. */
function placeBefore({ contents }: Volume): Place {
  return {
    batch: contents.after,
    written: 0,
    boot: contents.boot,
    history: contents.previous,
    seq: contents.seqBefore,
    hash: contents.hashBefore,
    audits: contents.auditsBefore,
    auditHash: contents.auditHashBefore
  }
}
