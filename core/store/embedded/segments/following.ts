// Reads the frames of segments while they are written, each once.
import { closeSync, openSync } from 'node:fs'
import { readFrames } from '../log/frame-reader.ts'
import type { Frame } from '../log/frame-reader.ts'
import { JournalDamage } from './journal-damage.ts'
import { framesFrom } from './segment-head.ts'
import type { SegmentHead } from './segment-head.ts'
import type { Written } from './segment-log.ts'

/** A frame, and the head of the segment that it is in. */
export interface FollowedFrame extends Frame {
  readonly head: SegmentHead
  /** Where it begins in its segment; 0 where it was read from a volume. */
  readonly at: number
  /** Of a volume that was thinned: see `Footer.unrecorded`. */
  readonly unrecorded?: number
}

/** The place of a reader. */
interface Place {
  readonly ordinal: number
  readonly fd: number
  /** Where the next frame begins, and the batch before it. */
  at: number
  last: number
}

/** One reader of a log. */
export class Following {
  #place: Place | undefined;

  /**
   * Yields the frames behind the batch `after` of segments that follow each other.
   * @throws JournalDamage when a segment does not have what was acknowledged
   */
  *frames(written: readonly Written[], after: number): Generator<FollowedFrame> {
    let number = after
    for (const segment of written) {
      const { head, path, last } = segment
      if (last <= number) continue
      const place = this.#open(segment, number)
      for (const frame of readFrames(place.fd, head.history, number, place.at)) {
        if (frame.batch.number !== number + 1 || number === last) break
        yield { ...frame, head, at: frame.end - frame.bytes.length }
        number = place.last = frame.batch.number
        place.at = frame.end
      }
      if (number < last) throw new JournalDamage(path, `is damaged: it ends with batch ${number} instead of ${last}`)
    }
  }

  close(): void {
    if (this.#place) closeSync(this.#place.fd)
    this.#place = undefined
  }

  /** Its place in a segment, from which the batch behind `after` can be read. */
  #open({ head, path }: Written, after: number): Place {
    const { ordinal } = head
    if (this.#place?.ordinal === ordinal && this.#place.last <= after) return this.#place
    this.close()
    return (this.#place = { ordinal, fd: openSync(path, 'r'), at: framesFrom, last: head.after })
  }
}
