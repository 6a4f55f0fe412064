// Silence as MP3: MPEG-2 layer III, 32 kbit per second, 24 kHz, one channel (ISO/IEC 13818-3).
import { framesFor } from './sound.ts'
import type { SoundFormat } from './sound.ts'

const samplesPerFrame = 576
const frameBytes = 96

/** A head of four bytes. Side information and data of zeros are silence. */
const frame = Buffer.alloc(frameBytes)
frame.set([0xff, 0xf3, 0x44, 0xc0])

export const mp3: SoundFormat = {
  contentType: 'audio/mpeg',
  headBytes: 0,
  bytesPerSecond: 4000,
  *frames(seconds) {
    for (let i = framesFor(seconds, samplesPerFrame); i > 0; i--) yield frame
  }
}
