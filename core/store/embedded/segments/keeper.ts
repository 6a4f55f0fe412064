// The keeper: follows the log of a store as it is written, and makes checkpoints and volumes of it.
import { existsSync } from 'node:fs'
import type { Durability } from '../files/sqlite.ts'
import { origin } from './chain.ts'
import type { Place } from './chain.ts'
import type { Checkpoints } from './checkpoint.ts'
import type { Fold } from './fold.ts'
import { pathOf } from './folder.ts'
import { Following } from './following.ts'
import type { FollowedFrame } from './following.ts'
import { placeAfter, sealing } from './sealing.ts'
import type { SegmentHead } from './segment-head.ts'
import type { Written } from './segment-log.ts'
import type { OpenedJournal } from './state.ts'
import { Summary } from './summary.ts'
import { isSpare, thinning } from './thinning.ts'
import type { Spare } from './thinning.ts'
import { Volume } from './volume.ts'

/** Who else takes the batches that a keeper follows. */
export interface Companion {
  /** The last batch that it has; infinite when it takes no more. */
  readonly last: number
  /** Takes the next batch. It does not throw. `place`: that behind it, where somebody has hashed its rows already. */
  take(frame: Pick<FollowedFrame, 'batch' | 'head' | 'at' | 'unrecorded'>, place?: Readonly<Place>): void
}

/**
 * Keeps one journal. Its methods read and write files, and so block their thread. After one has thrown, it can be
 * called again: it goes on where it was.
 */
export class Keeper {
  readonly #folder: string
  readonly #durability: Durability
  readonly #checkpoints: Checkpoints
  /** The state behind the last frame that was followed. */
  readonly fold: Fold
  /** Segments without a sound volume, in order; the last one may still be written to. */
  readonly #unsealed: Written[]
  /** Segments whose volume is there, while they are needed, and the last batch of each. */
  #sealed: { readonly path: string; readonly last: number }[]
  /** The ordinals of the volumes, and the places behind them by their last batch: the next segment goes on there. */
  readonly #volumes: Set<number>
  readonly #places: Map<number, Readonly<Place>>
  readonly #following = new Following()
  /** What the segments without a volume add up to that were followed from their first batch on, by their ordinals. */
  readonly #summaries = new Map<number, Summary>()
  /** The volume that is being made, of the oldest segment without one. */
  #sealing: ReturnType<typeof sealing> | undefined
  /** The volumes that have their records, in order. */
  readonly #thick: Pick<Volume, 'path' | 'contents'>[]
  /** The oldest of them, which is being thinned. */
  #thinning: ReturnType<typeof thinning> | undefined
  /** How many bytes of frames were folded since the last checkpoint. */
  #bytes: number

  constructor(folder: string, opened: OpenedJournal, durability: Durability) {
    const { fold, checkpoints, segments, volumes, tail } = opened
    this.#folder = folder
    this.#durability = durability
    this.#checkpoints = checkpoints
    this.fold = fold
    this.#bytes = tail
    const made = (this.#volumes = new Set(volumes.map(({ contents }) => contents.ordinal)))
    this.#places = new Map([origin, ...volumes.map(({ contents }) => placeAfter(contents))].map((at) => [at.batch, at]))
    this.#thick = volumes.filter(({ contents }) => contents.unrecorded === 0)
    this.#unsealed = segments.filter(({ head }) => !made.has(head.ordinal))
    this.#sealed = segments.filter(({ head }) => made.has(head.ordinal)).map(({ path, last }) => ({ path, last }))
  }

  /** How many bytes of frames are behind the last checkpoint. */
  get behind(): number {
    return this.#bytes
  }

  /**
   * Folds what was written. `companion` takes the batches that it lacks.
   * @throws Error when a segment does not have what was acknowledged
   */
  follow(written: readonly Written[], companion?: Companion): void {
    for (const segment of written) this.#note(segment)
    const { fold } = this
    const from = Math.min(fold.place.batch, companion?.last ?? Infinity)
    for (const frame of this.#following.frames(written, from)) {
      const { batch, bytes, head } = frame
      if (batch.number > fold.place.batch) {
        const summary = this.#summaryOf(head)
        fold.add(batch, head)
        summary?.add(batch, fold.place)
        this.#bytes += bytes.length
      }
      if (companion && batch.number > companion.last)
        companion.take(frame, batch.number === fold.place.batch ? fold.place : undefined)
    }
  }

  /** Writes a checkpoint if one is due, or `now`; returns whether it did. */
  checkpoint(now = false): boolean {
    if (this.#bytes === 0 || !(now || this.#checkpoints.isDue(this.#bytes))) return false
    this.#checkpoints.write(this.fold)
    this.#bytes = 0
    return true
  }

  /**
   * Does a step, of some milliseconds, of making the volume of the oldest segment that is full and folded, and has none
   * that is sound. Returns undefined when there is no such segment, and the volume when that was the last step.
   * @throws Error when a segment does not have what was acknowledged, or does not go on from what is before it
   */
  seal(): { readonly volume?: Volume } | undefined {
    const [segment] = this.#unsealed
    // The last one may be written to as long as no other has begun.
    if (!segment || this.#unsealed.length < 2) return undefined
    const { head, path, last } = segment
    const before = this.#places.get(head.after)
    if (!before) throw new Error(`${path} goes on behind batch ${head.after}, with which no volume ends`)
    this.#sealing ??= sealing(this.#folder, segment, before, this.#durability, this.#summaries.get(head.ordinal))
    const steps = this.#sealing
    // After a failure the volume is made anew.
    this.#sealing = undefined
    const { done, value: volume } = steps.next()
    if (!done) {
      this.#sealing = steps
      return {}
    }
    this.#unsealed.shift()
    this.#summaries.delete(head.ordinal)
    this.#volumes.add(head.ordinal)
    this.#places.delete(head.after)
    this.#places.set(last, placeAfter(volume.contents))
    this.#sealed.push({ path, last })
    this.#thick.push({ path: volume.path, contents: volume.contents })
    return { volume }
  }

  /**
   * Does a step of thinning the oldest volume that has what may go. Returns whether there is one.
   * @throws VolumeDamage when the volume is damaged: it stays as it is, and the next one is thinned
   */
  thin(spare: Spare): boolean {
    const [volume] = this.#thick
    if (!this.#thinning && !(volume && isSpare(volume, spare))) return false
    // As long as its segment is there, whoever reads the journal may read that.
    if (!this.#thinning && existsSync(pathOf(this.#folder, 'segment', volume!.contents.ordinal))) return false
    const steps = (this.#thinning ??= thinning(this.#folder, new Volume(volume!.path), spare, this.#durability))
    let over = true
    try {
      over = steps.next().done === true
    } finally {
      // What cannot be thinned is not tried again until the next start.
      if (over) {
        this.#thinning = undefined
        this.#thick.shift()
      }
    }
    return true
  }

  /** Takes the files of segments that nothing needs any more: their volumes are there, and two checkpoints behind. */
  spent(): string[] {
    const { oldest } = this.#checkpoints
    const spent = this.#sealed.filter(({ last }) => last <= oldest)
    if (spent.length > 0) this.#sealed = this.#sealed.filter(({ last }) => last > oldest)
    return spent.map(({ path }) => path)
  }

  close(): void {
    this.#sealing?.return(undefined as never)
    this.#thinning?.return(undefined as never)
    this.#following.close()
  }

  /** What a segment adds up to, whose next batch is to be folded; undefined where a start has passed over others. */
  #summaryOf(head: SegmentHead): Summary | undefined {
    const { place } = this.fold
    if (head.after === place.batch) this.#summaries.set(head.ordinal, new Summary(head, place))
    return this.#summaries.get(head.ordinal)
  }

  /** Notes how far a segment was written. */
  #note(segment: Written): void {
    const { ordinal } = segment.head
    if (this.#volumes.has(ordinal)) return
    const known = this.#unsealed.findIndex(({ head }) => head.ordinal === ordinal)
    if (known === -1) this.#unsealed.push(segment)
    else if (this.#unsealed[known]!.last < segment.last) this.#unsealed[known] = segment
  }
}
