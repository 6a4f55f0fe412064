// Measures how long a recording is while it streams by, without decoding it.
import { AacFrames, MpegFrames } from './frames.ts'
import { Flac } from './flac.ts'
import { Mp4 } from './mp4.ts'
import { Ogg } from './ogg.ts'
import { Walk } from './walk.ts'
import type { SoundFormat } from './walk.ts'
import { Wav } from './wav.ts'
import { WebM } from './webm.ts'

/** How many bytes are needed to recognize a format. */
const signBytes = 12

/** Measures one recording. It keeps a few hundred bytes, whatever the recording's size. */
export class Stopwatch {
  #size = 0
  #head: Buffer | undefined = Buffer.alloc(0)
  #walk: Walk | undefined

  push(bytes: Buffer): void {
    this.#size += bytes.length
    if (this.#walk) return this.#walk.push(bytes)
    if (!this.#head) return
    this.#head = Buffer.concat([this.#head, bytes])
    if (this.#head.length < signBytes) return
    const format = formatOf(this.#head)
    this.#walk = format && new Walk(format)
    this.#walk?.push(this.#head)
    this.#head = undefined
  }

  /** The seconds of the recording so far; undefined when its format is unknown or does not say. */
  get seconds(): number | undefined {
    return this.#walk?.seconds(this.#size)
  }
}

function formatOf(head: Buffer): SoundFormat | undefined {
  const text = (from: number, to: number): string => head.toString('latin1', from, to)
  if ((text(0, 4) === 'RIFF' || text(0, 4) === 'RF64') && text(8, 12) === 'WAVE') return new Wav()
  if (text(0, 4) === 'fLaC') return new Flac()
  if (text(0, 4) === 'OggS') return new Ogg()
  if (text(4, 8) === 'ftyp') return new Mp4()
  if (head.readUInt32BE(0) === 0x1a45dfa3) return new WebM()
  if (text(0, 3) === 'ID3') return new MpegFrames()
  if (head[0] !== 0xff || (head[1]! & 0xe0) !== 0xe0) return undefined
  // MPEG audio has no layer 0: it is AAC in ADTS.
  return (head[1]! & 0xf6) === 0xf0 ? new AacFrames() : new MpegFrames()
}
