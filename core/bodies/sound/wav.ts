// WAV: as long as its samples take. http://soundfile.sapp.org/doc/WaveFormat/
import type { SoundFormat } from './walk.ts'

/** Formats with samples of a fixed size: integers, floats, and those that name their format in an extension. */
const plain: ReadonlySet<number> = new Set([1, 3, 0xfffe])

export class Wav implements SoundFormat {
  #at = 0
  #bytesPerSecond = 0
  #data: { from: number; size: number } | undefined

  take(bytes: Buffer): number {
    const used = this.#at === 0 ? 12 : this.#chunk(bytes)
    this.#at += used
    return used
  }

  seconds(size: number): number | undefined {
    if (!this.#data || this.#bytesPerSecond === 0) return undefined
    // A recording that was written into a pipe does not know its own size.
    return Math.min(this.#data.size, size - this.#data.from) / this.#bytesPerSecond
  }

  #chunk(bytes: Buffer): number {
    if (bytes.length < 24) return 0
    const size = bytes.readUInt32LE(4)
    const name = bytes.toString('latin1', 0, 4)
    if (name === 'fmt ') {
      const perSample = bytes.readUInt16LE(20)
      this.#bytesPerSecond = plain.has(bytes.readUInt16LE(8))
        ? bytes.readUInt32LE(12) * perSample
        : bytes.readUInt32LE(16)
    }
    if (name !== 'data') return 8 + size + (size % 2)
    this.#data = { from: this.#at + 8, size: size === 0 ? Infinity : size }
    return Infinity
  }
}
