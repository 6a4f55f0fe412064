// Silence as AAC in ADTS: ISO/IEC 13818-7, low complexity, 24 kHz, one channel.
import { HighBits } from './bits.ts'
import { framesFor } from './sound.ts'
import type { SoundFormat } from './sound.ts'

const samplesPerFrame = 1024
/** One channel without any coefficients, and the end mark. */
const silence = [0x00, 0xc8, 0x00, 0x80, 0x23, 0x80]
const headBytes = 7
const frameBytes = headBytes + silence.length

const head = new HighBits()
  // Sync word, MPEG-4, layer, no checksum.
  .write(0xfff, 12)
  .write(0, 1)
  .write(0, 2)
  .write(1, 1)
  // Low complexity, 24 kHz, private, one channel, four unused flags.
  .write(1, 2)
  .write(6, 4)
  .write(0, 1)
  .write(1, 3)
  .write(0, 4)
  // Length of the frame, variable bit rate, one block.
  .write(frameBytes, 13)
  .write(0x7ff, 11)
  .write(0, 2)
const frame = Buffer.from([...head.bytes, ...silence])

export const aac: SoundFormat = {
  contentType: 'audio/aac',
  headBytes: 0,
  bytesPerSecond: 304,
  *frames(seconds) {
    for (let i = framesFor(seconds, samplesPerFrame); i > 0; i--) yield frame
  }
}
