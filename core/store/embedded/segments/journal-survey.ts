// The survey of a journal: finds the state to begin with and the frames behind it, and what is damaged or missing,
// before anything is written.
import { existsSync, readSync } from 'node:fs'
import type { Damage } from '../files/damage.ts'
import { withFile } from '../files/reading.ts'
import { readFrames, scanFrames } from '../log/frame-reader.ts'
import { noteIn } from '../log/segment.ts'
import { CheckpointDamage, readCheckpoint, soundCheckpoint } from './checkpoint.ts'
import { Fold } from './fold.ts'
import { listNumbered, reachPath } from './folder.ts'
import type { Numbered } from './folder.ts'
import { decodeHead, framesFrom } from './segment-head.ts'
import type { SegmentHead } from './segment-head.ts'
import type { Written } from './segment-log.ts'
import { Volume, VolumeDamage } from './volume.ts'

/** Frames of one segment that are behind the state and count. */
export interface Stretch {
  readonly head: SegmentHead
  /** The segment or volume that has them. */
  readonly source: string | Volume
  /** The first and the last batch, and where the first frame begins in a segment. */
  readonly first: number
  readonly last: number
  readonly from: number
}

/** What a start finds. */
export interface JournalSurvey {
  /** The state of the newest sound checkpoint; the origin when there is none. */
  readonly fold: Fold
  readonly stretches: readonly Stretch[]
  /** All segments with frames that count, each with the last of them. */
  readonly segments: readonly Written[]
  /** The footers of the volumes, in order. */
  readonly volumes: readonly Volume[]
  /** The batches of the checkpoints that are sound. */
  readonly sound: readonly number[]
  /** A number that no segment has had. */
  readonly ordinal: number
  /** Segments that have no frame that counts, and never had an acknowledged one. */
  readonly unused: readonly string[]
  /** Checkpoints and volumes that are damaged, which a start can do without. */
  readonly passed: readonly Damage[]
  /** Empty when the store can start. */
  readonly damage: readonly Damage[]
}

/** A segment that has begun, or the volume that was made of one. */
interface Begun {
  readonly head: SegmentHead
  readonly source: string | Volume
  /** The last batch that it can have: of a volume the last one that it has. */
  readonly most: number
}

/**
 * Surveys the folder of a journal. Where it is being written, `acknowledged` is the last batch that counts: then it is
 * not asked whether there are more.
 */
export function surveyJournal(folder: string, acknowledged = Infinity): JournalSurvey {
  const files = listNumbered(folder)
  const damage: Damage[] = []
  const { fold, sound, passed } = newestState(files)
  const { begun, unused, volumes } = segmentsOf(files, damage, passed)
  const segments: Written[] = []
  const stretches: Stretch[] = []
  const { batch } = fold.place
  let [last, history] = [batch, fold.place.history]
  /** Whether a segment or a volume has the last batch of the checkpoint. */
  let covered = batch === 0
  for (const [i, segment] of begun.entries()) {
    const { head } = segment
    if (head.after >= acknowledged) break
    // What is behind the place where the next segment goes on was not acknowledged.
    const until = Math.min(begun[i + 1]?.head.after ?? Infinity, segment.most, acknowledged)
    const open = i === begun.length - 1 && typeof segment.source === 'string'
    covered ||= head.after < batch && until >= batch
    const path = pathIn(segment)
    if (!open && until <= batch) {
      if (typeof segment.source === 'string' && until > head.after) segments.push({ head, path, last: until })
      continue
    }
    if (head.after > last) {
      damage.push({ file: path, text: `goes on behind batch ${head.after}: ${missing(last + 1, head.after)}` })
      break
    }
    if ((last > head.after ? head.history : head.previous) !== history) {
      damage.push({ file: path, text: `does not continue what is before it: it is of a copy that went on by itself` })
      break
    }
    const found = stretchOf(segment, last, until, open, damage)
    if (found.last > last || last > head.after) history = head.history
    if (found.last > last) stretches.push(found)
    if (typeof segment.source === 'string' && found.last > head.after) segments.push({ head, path, last: found.last })
    last = found.last
    if (damage.length > 0) break
  }
  if (!covered && damage.length === 0)
    damage.push({ file: folder, text: `has no segment and no volume with batch ${batch}, which a checkpoint includes` })
  if (damage.length === 0 && acknowledged === Infinity) damage.push(...witnesses(folder, files, unused, last, history))
  const ordinal = files.reduce((most, { kind, number }) => (kind === 'checkpoint' ? most : Math.max(most, number)), 0)
  return { fold, stretches, segments, volumes, sound, ordinal: ordinal + 1, unused, passed, damage }
}

/** The last batch that a survey found. */
export function lastBatch({ fold, stretches }: JournalSurvey): number {
  return stretches.at(-1)?.last ?? fold.place.batch
}

/** Reads the newest checkpoint that is sound. */
function newestState(files: readonly Numbered[]): Pick<JournalSurvey, 'fold' | 'sound'> & { passed: Damage[] } {
  let fold: Fold | undefined
  const sound: number[] = []
  const passed: Damage[] = []
  for (const { number, path } of files.filter(({ kind }) => kind === 'checkpoint').reverse()) {
    try {
      if (fold) soundCheckpoint(path)
      else fold = readCheckpoint(path)
      sound.push(number)
    } catch (error) {
      if (!(error instanceof CheckpointDamage)) throw error
      passed.push({ file: path, text: error.message })
    }
  }
  return { fold: fold ?? new Fold(), sound, passed }
}

/** The segments that have begun, in the order of their ordinals. */
function segmentsOf(
  files: readonly Numbered[],
  damage: Damage[],
  passed: Damage[]
): { begun: Begun[]; unused: string[]; volumes: Volume[] } {
  const volumes: Volume[] = []
  const begun = new Map<number, Begun>()
  const unused: string[] = []
  for (const { kind, number, path } of files) {
    if (kind === 'checkpoint') continue
    if (kind === 'volume') {
      try {
        const volume = new Volume(path)
        volumes.push(volume)
        // Sorted by their names, segments come first. The file of one that was sealed may have another name by now.
        if (!begun.has(number)) begun.set(number, { head: volume.contents, source: volume, most: volume.contents.last })
      } catch (error) {
        if (!(error instanceof VolumeDamage)) throw error
        // It is made again where its segment is still there.
        ;(begun.has(number) ? passed : damage).push({ file: path, text: error.text })
      }
      continue
    }
    const head = headOf(path)
    if (head?.ordinal === number && hasBegun(path, head)) begun.set(number, { head, source: path, most: Infinity })
    else unused.push(path)
  }
  const sorted = [...begun.values()].sort((one, other) => one.head.ordinal - other.head.ordinal)
  return { begun: sorted, unused, volumes }
}

function headOf(path: string): SegmentHead | undefined {
  return withFile(path, (fd) => {
    const bytes = Buffer.alloc(framesFrom)
    return decodeHead(bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, 0)))
  })
}

/** Whether a segment has its first frame, or any later one: the first was acknowledged then. */
function hasBegun(path: string, { history, after }: SegmentHead): boolean {
  return withFile(path, (fd) => {
    if (readFrames(fd, history, after, framesFrom).next().value?.batch.number === after + 1) return true
    for (const { number, whole } of scanFrames(fd, history, after, framesFrom)) if (whole && number > after) return true
    return false
  })
}

/** Finds the frames of a segment from behind `last` up to `until`. `open`: it is the last one, and may end torn. */
function stretchOf(segment: Begun, last: number, until: number, open: boolean, damage: Damage[]): Stretch {
  const { head, source } = segment
  const path = pathIn(segment)
  if (typeof source !== 'string') return { head, source, first: last + 1, last: until, from: 0 }
  let [next, from, end] = [last + 1, framesFrom, framesFrom]
  let known = head.after === last
  let beyond: number | undefined
  withFile(path, (fd) => {
    for (const { number, from: begin, to, whole } of scanFrames(
      fd,
      head.history,
      Math.max(last, head.after),
      framesFrom
    )) {
      if (number <= head.after || number > until || !whole) continue
      if (number === last) known = true
      if (number > next) beyond ??= number
      if (number !== next || beyond !== undefined) continue
      if (next === last + 1) from = begin
      next++
      end = to
    }
  })
  if (!known)
    damage.push({
      file: path,
      text: `does not have batch ${last}, which a checkpoint includes: it is cut off or older`
    })
  else if (beyond !== undefined)
    damage.push({ file: path, text: `is damaged behind byte ${end}: ${missing(next, beyond - 1)}` })
  else if (!open && next <= until)
    damage.push({
      file: path,
      text: `is damaged or cut off behind byte ${end}: ${missing(next, until)}, and the next segment goes on behind them`
    })
  return { head, source, first: last + 1, last: next - 1, from }
}

/** What else says that the log went further than its frames, which end with batch `last` of a history. */
function witnesses(
  folder: string,
  files: readonly Numbered[],
  unused: readonly string[],
  last: number,
  history: string
): Damage[] {
  const path = reachPath(folder)
  const noted = existsSync(path) ? withFile(path, (fd) => noteIn(fd, 0)) : undefined
  const histories = new Set([history, noted?.history ?? history])
  const claims = [
    ...(noted ? [{ file: path, batch: noted.batch }] : []),
    ...files.flatMap(({ kind, number, path: file }) => (kind === 'checkpoint' ? [{ file, batch: number }] : [])),
    // Its head may be damaged.
    ...unused.map((file) => ({ file, batch: Math.max(...[...histories].map((of) => mostIn(file, of, last))) }))
  ]
  return claims
    .filter(({ batch }) => batch > last)
    .slice(0, 1)
    .map(({ file, batch }) => ({
      file,
      text: `says that the journal went on to batch ${batch}: ${missing(last + 1, batch)}`
    }))
}

/** The highest batch of a history in a file that is behind `last`; 0 when there is none. */
function mostIn(path: string, history: string, last: number): number {
  if (history === '') return 0
  return withFile(path, (fd) => {
    let most = 0
    for (const { number, whole } of scanFrames(fd, history, last, framesFrom))
      if (whole && number > Math.max(most, last)) most = number
    return most
  })
}

function missing(first: number, last: number): string {
  return first === last ? `batch ${first} is missing` : `batches ${first} to ${last} are missing`
}

function pathIn({ source }: Begun): string {
  return typeof source === 'string' ? source : source.path
}
