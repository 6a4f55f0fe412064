// Raw samples, without a head or with that of WAV: http://soundfile.sapp.org/doc/WaveFormat/
import { sampleRate } from './sound.ts'
import type { SoundFormat } from './sound.ts'

const bytesPerSample = 2
const bytesPerSecond = sampleRate * bytesPerSample
const samplesPerFrame = sampleRate / 10
const wavHead = 44

/**
 * A tenth of a second of a tone of 440 hertz, with 16 bits per sample. It has 44 whole waves, so copies of it join
 * smoothly.
 */
const tone = Buffer.alloc(samplesPerFrame * bytesPerSample)
for (let i = 0; i < samplesPerFrame; i++)
  tone.writeInt16LE(Math.round(8000 * Math.sin((2 * Math.PI * 440 * i) / sampleRate)), i * bytesPerSample)

function* tones(bytes: number): Generator<Buffer> {
  for (let left = bytes; left > 0; left -= tone.length) yield tone.subarray(0, left)
}

const dataBytes = (seconds: number): number => Math.ceil(seconds * sampleRate) * bytesPerSample

export const pcm: SoundFormat = {
  contentType: 'audio/pcm',
  headBytes: 0,
  bytesPerSecond,
  frames: (seconds) => tones(dataBytes(seconds))
}

export const wav: SoundFormat = {
  contentType: 'audio/wav',
  headBytes: wavHead,
  bytesPerSecond,
  *frames(seconds) {
    const bytes = dataBytes(seconds)
    const head = Buffer.from(`RIFF    WAVEfmt ${' '.repeat(20)}data    `, 'latin1')
    head.writeUInt32LE(bytes + wavHead - 8, 4)
    head.writeUInt32LE(16, 16)
    head.writeUInt16LE(1, 20)
    head.writeUInt16LE(1, 22)
    head.writeUInt32LE(sampleRate, 24)
    head.writeUInt32LE(bytesPerSecond, 28)
    head.writeUInt16LE(bytesPerSample, 32)
    head.writeUInt16LE(bytesPerSample * 8, 34)
    head.writeUInt32LE(bytes, 40)
    yield head
    yield* tones(bytes)
  }
}
