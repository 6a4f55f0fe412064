// Makes the file of a finished video.
import { hash } from 'node:crypto'
import { mp4Of, padding } from '../media/mp4.ts'
import type { Picture } from '../media/picture.ts'
import type { Job, VideoPlan } from './job.ts'

/** The one picture that the video shows. */
export function stillOf({ id, plan }: Job): Picture {
  const { width, height } = plan as VideoPlan
  return { width, height, digest: hash('sha1', id) }
}

/** The file and its length. A directive may ask for a longer file. */
export function videoFile(job: Job): { frames: Iterator<Buffer>; length: number } {
  const whole = mp4Of(stillOf(job), (job.plan as VideoPlan).seconds)
  const { bytes = whole.length } = job.directive
  if (bytes < whole.length + 8) return { frames: [whole].values(), length: whole.length }
  return { frames: padded(whole, bytes - whole.length), length: bytes }
}

function* padded(whole: Buffer, bytes: number): Generator<Buffer> {
  yield whole
  yield* padding(bytes)
}
