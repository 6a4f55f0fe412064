// What is left of a damaged journal: every frame that is whole, whatever is wrong with the files around it.
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { withFile } from '../../files/reading.ts'
import { findMark, historyOfFrame } from '../../log/frame.ts'
import { framesIn, readFrames, scanFrames } from '../../log/frame-reader.ts'
import type { Frame } from '../../log/frame-reader.ts'
import type { Start } from '../../segments/chain.ts'
import { listNumbered } from '../../segments/folder.ts'
import type { Numbered } from '../../segments/folder.ts'
import { decodeHead, framesFrom } from '../../segments/segment-head.ts'
import type { SegmentHead } from '../../segments/segment-head.ts'
import { Volume, VolumeDamage } from '../../segments/volume.ts'
import { blocksLeftIn } from './volume-remains.ts'

/** Batches that follow each other, both ends included. */
export interface Run {
  readonly first: number
  readonly last: number
}

/** What one file has. */
export interface Remains {
  readonly path: string
  /**
   * Where the file's own is damaged, it is told by its frames: then `previous` is empty, and `boot` 0 where nothing
   * knows that start.
   */
  readonly head: SegmentHead
  /** Its whole frames, in order. */
  readonly runs: readonly Run[]
  /** Whether the file is what was written, as far as it goes. */
  readonly sound: boolean
  /** Yields the whole frames behind the batch `after`, up to `until`. */
  frames(after: number, until: number): Iterable<Frame>
}

/**
 * Finds what is left in a folder, in the order of the ordinals: of each segment and its volume that which has more.
 * Every file is read. `starts`: those that are known from elsewhere, for segments whose head is damaged.
 */
export function remainsIn(
  folder: string,
  starts: readonly Start[],
  reached: (files: number, of: number) => void
): Remains[] {
  const files = listNumbered(folder).filter(({ kind }) => kind !== 'checkpoint')
  const best = new Map<number, Remains>()
  for (const [i, file] of files.entries()) {
    reached(i, files.length)
    const found = file.kind === 'segment' ? inSegment(file, starts) : inVolume(file, starts)
    if (!found) continue
    const { ordinal } = found.head
    const other = best.get(ordinal)
    if (!other || count(found) > count(other) || (found.sound && !other.sound)) best.set(ordinal, found)
  }
  reached(files.length, files.length)
  return [...best.values()].sort((one, other) => one.head.ordinal - other.head.ordinal)
}

/** How many whole frames a file has. */
export function count({ runs }: Pick<Remains, 'runs'>): number {
  return runs.reduce((sum, { first, last }) => sum + last - first + 1, 0)
}

function inSegment({ path, number }: Numbered, starts: readonly Start[]): Remains | undefined {
  const places: (Run & { readonly from: number })[] = []
  const own = withFile(path, headIn)
  const history = own?.history ?? firstHistory(readFileSync(path).subarray(framesFrom))
  if (history === undefined) return undefined
  withFile(path, (fd) => {
    let end = framesFrom
    // A file that was used before still has frames of then, whose numbers are lower.
    let last = own?.after ?? 0
    for (const { number: batch, from, to, whole } of scanFrames(fd, history, last, framesFrom)) {
      if (!whole || batch <= last) continue
      const run = places.at(-1)
      if (run && batch === last + 1 && from === end) places[places.length - 1] = { ...run, last: batch }
      else places.push({ first: batch, last: batch, from })
      last = batch
      end = to
    }
  })
  const [first] = places
  if (!first) return undefined
  return {
    path,
    head: own ?? guessed(number, history, first.first, starts),
    runs: places,
    sound: own?.ordinal === number && places.length === 1 && first.first === own.after + 1,
    *frames(after, until) {
      for (const run of places) yield* framesOfRun(path, history, run, after, until)
    }
  }
}

function headIn(fd: number): SegmentHead | undefined {
  const page = Buffer.alloc(framesFrom)
  return decodeHead(page.subarray(0, readSync(fd, page, 0, page.length, 0)))
}

function* framesOfRun(
  path: string,
  history: string,
  { first, last, from }: Run & { readonly from: number },
  after: number,
  until: number
): Generator<Frame> {
  const most = Math.min(last, until)
  if (most <= after || first > until) return
  const fd = openSync(path, 'r')
  try {
    for (const frame of readFrames(fd, history, Math.max(after, first - 1), from)) {
      if (frame.batch.number > most) return
      yield frame
    }
  } finally {
    closeSync(fd)
  }
}

function inVolume({ path, number }: Numbered, starts: readonly Start[]): Remains | undefined {
  const volume = footerOf(path)
  if (volume?.contents.ordinal === number && volume.whole) {
    const { contents } = volume
    return {
      path,
      head: contents,
      runs: [{ first: contents.after + 1, last: contents.last }],
      sound: true,
      *frames(after, until) {
        for (const frame of volume.frames(after)) {
          if (frame.batch.number > until) return
          yield frame
        }
      }
    }
  }
  const runs: Run[] = []
  let history: string | undefined
  for (const { frame, of } of framesInBlocks(path)) {
    history ??= of
    const { number: batch } = frame.batch
    const run = runs.at(-1)
    if (run && batch === run.last + 1) runs[runs.length - 1] = { ...run, last: batch }
    else runs.push({ first: batch, last: batch })
  }
  if (history === undefined) return undefined
  return {
    path,
    head: volume?.contents ?? guessed(number, history, runs[0]!.first, starts),
    runs,
    sound: false,
    *frames(after, until) {
      for (const { frame } of framesInBlocks(path)) {
        if (frame.batch.number > until) return
        if (frame.batch.number > after) yield frame
      }
    }
  }
}

function footerOf(path: string): Volume | undefined {
  try {
    return new Volume(path)
  } catch (error) {
    if (error instanceof VolumeDamage) return undefined
    throw error
  }
}

function* framesInBlocks(path: string): Generator<{ frame: Frame; of: string }> {
  for (const block of blocksLeftIn(path)) {
    const of = historyOfFrame(block, 0)
    if (of !== undefined) for (const frame of framesIn(block, of, 0)) yield { frame, of }
  }
}

/** The history of the first frame in bytes. */
function firstHistory(bytes: Buffer): string | undefined {
  for (let at = findMark(bytes, 0); at !== -1; at = findMark(bytes, at + 1)) {
    const history = historyOfFrame(bytes, at)
    if (history !== undefined) return history
  }
  return undefined
}

/** The head that a file must have had, by its name and its first whole frame. */
function guessed(ordinal: number, history: string, first: number, starts: readonly Start[]): SegmentHead {
  const boot = starts.find((start) => start.history === history)?.boot ?? 0
  return { ordinal, boot, history, previous: '', after: first - 1 }
}
