// Sound in frames that follow each other: MPEG audio (MP3 and older layers) and AAC in ADTS. Its length is the sum of
// its frames.
import type { SoundFormat } from './walk.ts'

/** What the head of a frame says. */
interface Frame {
  bytes: number
  samples: number
  hertz: number
}

/** The bytes needed to read a head. Neither format needs more. */
const headBytes = 8

/** Counts frames. Tags before the frames and rubbish between them are skipped. */
abstract class Frames implements SoundFormat {
  /** Samples by their rate. They are added up per rate, because a sum of seconds would collect rounding errors. */
  readonly #samples = new Map<number, number>()
  #frames = 0

  take(bytes: Buffer): number {
    if (bytes.length < headBytes) return 0
    if (this.#frames === 0 && bytes.toString('latin1', 0, 3) === 'ID3') {
      return bytes.length < 10
        ? 0
        : 10 +
            [6, 7, 8, 9].reduce((size, at) => size * 128 + (bytes[at]! & 0x7f), 0) +
            ((bytes[5]! & 0x10) === 0 ? 0 : 10)
    }
    const frame = bytes[0] === 0xff ? this.frame(bytes) : undefined
    if (!frame) {
      const next = bytes.indexOf(0xff, 1)
      return next === -1 ? bytes.length : next
    }
    // The first frame may be silent and only describe the others.
    const told = this.#frames === 0 && this.tells ? this.tells(bytes, frame) : false
    if (told === undefined) return 0
    this.#frames++
    if (!told) this.#samples.set(frame.hertz, (this.#samples.get(frame.hertz) ?? 0) + frame.samples)
    return frame.bytes
  }

  seconds(): number | undefined {
    return this.#frames > 1 ? [...this.#samples].reduce((sum, [hertz, samples]) => sum + samples / hertz, 0) : undefined
  }

  protected abstract frame(head: Buffer): Frame | undefined

  /**
   * Whether a frame describes the others and holds no sound; undefined when more of it is needed. Absent for formats
   * without such frames.
   */
  protected tells?(bytes: Buffer, frame: Frame): boolean | undefined
}

/** Kilobits per second, by version and layer: https://www.iso.org/standard/22412.html §2.4.2.3. */
const rates = {
  first: [
    [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
  ],
  second: [
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]
  ]
} as const

export class MpegFrames extends Frames {
  protected frame(head: Buffer): Frame | undefined {
    const [second, third] = [head[1]!, head[2]!]
    const version = (second >> 3) & 3
    const layer = 4 - ((second >> 1) & 3)
    const rate = (third >> 2) & 3
    if ((second & 0xe0) !== 0xe0 || version === 1 || layer === 4 || rate === 3) return undefined
    const first = version === 3
    const kilobits = rates[first ? 'first' : 'second'][layer - 1]![third >> 4]
    if (!kilobits) return undefined
    const hertz = [44_100, 48_000, 32_000][rate]! / (first ? 1 : version === 2 ? 2 : 4)
    const samples = layer === 1 ? 384 : layer === 3 && !first ? 576 : 1152
    const padding = (third >> 1) & 1
    const bytes =
      layer === 1
        ? (Math.floor((12_000 * kilobits) / hertz) + padding) * 4
        : Math.floor((samples * 125 * kilobits) / hertz) + padding
    return { bytes, samples, hertz }
  }

  protected override tells(bytes: Buffer, frame: Frame): boolean | undefined {
    if (bytes.length < frame.bytes) return undefined
    const text = bytes.toString('latin1', 0, Math.min(frame.bytes, 64))
    return text.includes('Xing') || text.includes('Info') || text.includes('VBRI')
  }
}

const aacRates = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000, 7350]

export class AacFrames extends Frames {
  protected frame(head: Buffer): Frame | undefined {
    const hertz = aacRates[(head[2]! >> 2) & 15]
    const bytes = ((head[3]! & 3) << 11) | (head[4]! << 3) | (head[5]! >> 5)
    if ((head[1]! & 0xf6) !== 0xf0 || hertz === undefined || bytes < 7) return undefined
    return { bytes, samples: 1024 * ((head[6]! & 3) + 1), hertz }
  }
}
