// Seals segments: makes the volume of one that is full, and proves that it has what the segment had.
import { closeSync, openSync } from 'node:fs'
import { basename } from 'node:path'
import type { Durability } from '../files/sqlite.ts'
import type { Batch } from '../rows/batch.ts'
import { rawFrames, readFrames } from '../log/frame-reader.ts'
import { Chain } from './chain.ts'
import type { Place, Start } from './chain.ts'
import { pathOf } from './folder.ts'
import { framesFrom } from './segment-head.ts'
import type { Written } from './segment-log.ts'
import { Summary } from './summary.ts'
import type { Contents } from './summary.ts'
import { Volume, writeVolume } from './volume.ts'
import type { VolumeFrame } from './volume.ts'

/**
 * Makes the volume of a segment that nothing is written to any more, in steps of some milliseconds. `followed` is what
 * its frames add up to where somebody has followed all of them: then they are taken as they are. Else they are decoded
 * and hashed for it, from `before` on, the place in front of the first one. The volume is on disk, and was read back,
 * when this returns.
 * @throws VolumeDamage when what was read back is not what was written
 * @throws Error when the segment does not have all of its frames; then there is no volume
 */
export function* sealing(
  folder: string,
  segment: Written,
  before: Readonly<Place>,
  durability: Durability,
  followed?: Summary
): Generator<void, Volume> {
  const { ordinal } = segment.head
  const summary = followed ?? new Summary(segment.head, before)
  const frames = followed ? framesOf(segment) : chained(segment, new Chain(before), summary)
  return new Volume(yield* writeVolume(folder, ordinal, frames, summary, durability))
}

/** Yields the frames of a segment. Throws where one is missing. */
function* framesOf({ head, path, last }: Written): Generator<VolumeFrame> {
  const fd = openSync(path, 'r')
  try {
    let reached = head.after
    for (const frame of rawFrames(fd, head.history, head.after, framesFrom)) {
      if (frame.number !== reached + 1 || reached === last) break
      yield frame
      reached = frame.number
    }
    checkEnd(path, reached, last)
  } finally {
    closeSync(fd)
  }
}

/** Likewise, each after it was added to a summary. */
function* chained({ head, path, last }: Written, chain: Chain, summary: Summary): Generator<VolumeFrame> {
  const fd = openSync(path, 'r')
  try {
    for (const { batch, bytes } of readFrames(fd, head.history, head.after, framesFrom)) {
      if (batch.number > last) break
      chain.add(batch, head)
      summary.add(batch, chain.place)
      yield { number: batch.number, bytes }
    }
    checkEnd(path, chain.place.batch, last)
  } finally {
    closeSync(fd)
  }
}

function checkEnd(path: string, batch: number, last: number): void {
  if (batch !== last) throw new Error(`${path} ends with batch ${batch}, and had batch ${last}: it was changed`)
}

/** What batches are added to, one after the other. */
interface Adding {
  readonly place: Readonly<Place>
  add(batch: Batch, start: Start): void
}

/**
 * Reads a volume as a whole, and computes its footer again: hashes of rows, sums, numbers. Says what is wrong, as the
 * rest of a sentence that begins with its name; undefined when nothing is. Batches are added to `adding`, which is in
 * front of the volume; by default to the place that its footer names. `each` is called behind every batch.
 */
export function checkVolume(
  volume: Volume,
  adding: Adding = new Chain(placeBefore(volume.contents)),
  each: (batch: Batch) => void = () => {}
): string | undefined {
  const { contents } = volume
  const own = basename(pathOf('', 'volume', contents.ordinal))
  if (basename(volume.path) !== own) return `is volume ${contents.ordinal} under the name of another`
  if (!volume.whole) return 'is not what was written: its SHA-256 differs'
  const summary = new Summary(contents, adding.place)
  try {
    for (const { batch } of volume.frames(0)) {
      adding.add(batch, contents)
      summary.add(batch, adding.place)
      each(batch)
    }
  } catch (error) {
    return (error as Error).message
  }
  for (const [name, value] of Object.entries(summary.contents))
    if (value !== contents[name as keyof Contents])
      return `says ${name} ${contents[name as keyof Contents]}, and has ${value}`
  const { charges } = summary
  return charges.length === volume.charged.length && charges.every((value, i) => value === volume.charged[i])
    ? undefined
    : 'has other sums than its rows add up to'
}

/** The place in front of the first frame of a volume. */
function placeBefore({ after, previous, boot, seqBefore, hashBefore, auditsBefore, auditHashBefore }: Contents): Place {
  return {
    batch: after,
    written: 0,
    boot,
    history: previous,
    seq: seqBefore,
    hash: hashBefore,
    audits: auditsBefore,
    auditHash: auditHashBefore
  }
}

/** The place behind the last frame of a volume. */
export function placeAfter({ last, written, boot, history, seq, hash, audits, auditHash }: Contents): Place {
  return { batch: last, written, boot, history, seq, hash, audits, auditHash }
}
