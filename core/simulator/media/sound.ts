// What a sound is to be, whatever it is encoded in, and how it comes in pieces.

/** Samples a second, of one channel, in every format. */
export const sampleRate = 24_000

/** An encoding of sounds. */
export interface SoundFormat {
  contentType: string
  /** Of what stands before the sound. */
  headBytes: number
  /** At least, behind the head. */
  bytesPerSecond: number
  /** The head and the frames of a sound of so many seconds, none of them longer than a fifth of a second. */
  frames(seconds: number): Iterable<Buffer>
}

const smallest = 16 * 1024

/** A sound of so many seconds, in pieces of a tenth of a second or a little more, or in at most so many. */
export function soundOf(format: SoundFormat, seconds: number, pieces = Math.ceil(seconds * 10)): Iterable<Buffer> {
  return grouped(format.frames(seconds), Math.ceil((format.bytesPerSecond * seconds) / Math.max(pieces, 1)))
}

/** A sound of exactly so many bytes, the last frame broken off, in pieces of 16 KiB or in at most so many. */
export function* soundOfBytes(
  format: SoundFormat,
  bytes: number,
  pieces = Math.ceil(bytes / smallest)
): Iterable<Buffer> {
  let left = bytes
  const seconds = Math.max(bytes - format.headBytes, 0) / format.bytesPerSecond
  for (const piece of grouped(format.frames(seconds), Math.ceil(bytes / Math.max(pieces, 1)))) {
    yield piece.subarray(0, left)
    left -= piece.length
    if (left <= 0) return
  }
}

/** Puts frames together until there are so many bytes. */
function* grouped(frames: Iterable<Buffer>, size: number): Generator<Buffer> {
  let held: Buffer[] = []
  let length = 0
  for (const frame of frames) {
    held.push(frame)
    length += frame.length
    if (length < size) continue
    yield Buffer.concat(held)
    held = []
    length = 0
  }
  if (length > 0) yield Buffer.concat(held)
}

/** Frames that each last so many samples, as many as a sound takes. */
export function framesFor(seconds: number, samples: number): number {
  return Math.ceil((Math.max(seconds, 0) * sampleRate) / samples)
}
