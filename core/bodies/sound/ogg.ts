// Ogg with Opus, Vorbis, Speex or FLAC: the last pages say how many samples there are.
// https://www.rfc-editor.org/rfc/rfc3533
import { flacRate } from './flac.ts'
import type { SoundFormat } from './walk.ts'

/** The most streams in one file. They follow each other; no recording has more. */
const mostStreams = 64

interface Stream {
  hertz: number
  /** Samples at the beginning that players leave out. */
  skipped: number
  samples: number
}

export class Ogg implements SoundFormat {
  readonly #streams = new Map<number, Stream | undefined>()

  take(bytes: Buffer): number {
    if (bytes.length < 27) return 0
    if (bytes.toString('latin1', 0, 4) !== 'OggS') {
      const next = bytes.indexOf('OggS', 1, 'latin1')
      return next === -1 ? bytes.length - 3 : next
    }
    const segments = bytes[26]!
    if (bytes.length < 27 + segments) return 0
    let size = 0
    for (let i = 0; i < segments; i++) size += bytes[27 + i]!
    const serial = bytes.readUInt32LE(14)
    if (!this.#streams.has(serial)) {
      const head = 27 + segments
      if (bytes.length < head + Math.min(size, 64)) return 0
      if (this.#streams.size === mostStreams) throw new RangeError('too many streams')
      this.#streams.set(serial, streamOf(bytes.subarray(head, head + size)))
    }
    const stream = this.#streams.get(serial)
    const samples = bytes.readBigInt64LE(6)
    // A page on which no packet ends says -1.
    if (stream && samples > 0n) stream.samples = Math.max(stream.samples, Number(samples))
    return 27 + segments + size
  }

  seconds(): number | undefined {
    const streams = [...this.#streams.values()].filter(
      (stream): stream is Stream => stream !== undefined && stream.hertz > 0
    )
    return streams.length === 0
      ? undefined
      : streams.reduce((sum, { samples, skipped, hertz }) => sum + Math.max(0, samples - skipped) / hertz, 0)
  }
}

/** The stream that begins with this packet; undefined when it is not sound. */
function streamOf(packet: Buffer): Stream | undefined {
  const begins = (text: string): boolean => packet.toString('latin1', 0, text.length) === text
  if (begins('OpusHead') && packet.length >= 12) return { hertz: 48_000, skipped: packet.readUInt16LE(10), samples: 0 }
  if (begins('\x01vorbis') && packet.length >= 16) return { hertz: packet.readUInt32LE(12), skipped: 0, samples: 0 }
  if (begins('Speex   ') && packet.length >= 40) return { hertz: packet.readUInt32LE(36), skipped: 0, samples: 0 }
  if (begins('\x7fFLAC') && packet.length >= 31) return { hertz: flacRate(packet.subarray(17)), skipped: 0, samples: 0 }
  return undefined
}
