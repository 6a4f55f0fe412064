// Sounds, independent of their format, and how they are split into pieces.

/** Samples per second, of one channel, in every format. */
export const sampleRate = 24_000

/** A format of sounds. */
export interface SoundFormat {
  contentType: string
  /** The bytes before the sound. */
  headBytes: number
  /** The least bytes for each second, without the head. */
  bytesPerSecond: number
  /** The head and the frames of a sound of this length. Each frame lasts at most a fifth of a second. */
  frames(seconds: number): Iterable<Buffer>
}

const smallest = 16 * 1024

/** A sound of this length, in pieces of at least a tenth of a second, or in at most `pieces`. */
export function soundOf(format: SoundFormat, seconds: number, pieces = Math.ceil(seconds * 10)): Iterable<Buffer> {
  return grouped(format.frames(seconds), Math.ceil((format.bytesPerSecond * seconds) / Math.max(pieces, 1)))
}

/** A sound of exactly this many bytes, even if that cuts a frame, in pieces of 16 KiB, or in at most `pieces`. */
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

/** Joins frames into pieces of at least `size` bytes. */
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

/** How many frames of this many samples a sound has. */
export function framesFor(seconds: number, samples: number): number {
  return Math.ceil((Math.max(seconds, 0) * sampleRate) / samples)
}
