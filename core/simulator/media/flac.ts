// Silence as FLAC: https://www.rfc-editor.org/rfc/rfc9639
import { HighBits } from './bits.ts'
import { framesFor, sampleRate } from './sound.ts'
import type { SoundFormat } from './sound.ts'

const samplesPerFrame = 4096

export const flac: SoundFormat = {
  contentType: 'audio/flac',
  headBytes: 42,
  bytesPerSecond: 70,
  *frames(seconds) {
    const frames = framesFor(seconds, samplesPerFrame)
    yield streamInfo(frames * samplesPerFrame)
    for (let i = 0; i < frames; i++) yield frame(i)
  }
}

/** The signature and the one metadata block, without a hash of the samples and without the sizes of frames. */
function streamInfo(samples: number): Buffer {
  const bits = new HighBits()
    .write(0x80, 8)
    .write(34, 24)
    .write(samplesPerFrame, 16)
    .write(samplesPerFrame, 16)
    .write(0, 24)
    .write(0, 24)
  bits.write(sampleRate, 20).write(0, 3).write(15, 5)
  bits
    .write(Math.floor(samples / 2 ** 32), 4)
    .write(Math.floor(samples / 2 ** 16) % 2 ** 16, 16)
    .write(samples % 2 ** 16, 16)
  return Buffer.concat([Buffer.from('fLaC'), Buffer.from(bits.bytes), Buffer.alloc(16)])
}

/** A frame of 4096 samples, all zero. */
function frame(number: number): Buffer {
  const head = new HighBits()
    .write(0xfff8, 16)
    .write(0b1100, 4)
    .write(0b0111, 4)
    .write(0, 4)
    .write(0b100, 3)
    .write(0, 1)
  const bytes = [...head.bytes, ...Buffer.from(coded(number))]
  bytes.push(checksum(bytes, 8, 0x07), 0, 0, 0)
  const check = checksum(bytes, 16, 0x8005)
  return Buffer.from([...bytes, check >> 8, check & 0xff])
}

/** The number of a frame, encoded like a UTF-8 character, also beyond the valid ones. */
function coded(number: number): number[] {
  if (number < 0x80) return [number]
  let length = 2
  while (number >= 2 ** (5 * length + 1)) length++
  const rest = Array.from(
    { length: length - 1 },
    (_, i) => 0x80 | (Math.floor(number / 2 ** (6 * (length - 2 - i))) & 0x3f)
  )
  return [((0xff00 >> length) & 0xff) | Math.floor(number / 2 ** (6 * (length - 1))), ...rest]
}

/** A cyclic redundancy check of this width, most significant bit first. */
function checksum(bytes: readonly number[], width: 8 | 16, polynomial: number): number {
  const top = 1 << (width - 1)
  const mask = 2 ** width - 1
  let value = 0
  for (const byte of bytes) {
    value ^= byte << (width - 8)
    for (let i = 0; i < 8; i++) value = (value & top ? (value << 1) ^ polynomial : value << 1) & mask
  }
  return value
}
