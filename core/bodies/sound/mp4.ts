// MP4 and M4A: as long as the longest sound track, in one piece or in fragments. ISO/IEC 14496-12
import type { SoundFormat } from './walk.ts'

/** Boxes whose contents are walked through. */
const containers: ReadonlySet<string> = new Set(['moov', 'trak', 'mdia', 'mvex', 'moof', 'traf'])
/** Boxes that are read, and the largest of them in bytes. */
const read: ReadonlySet<string> = new Set(['mvhd', 'mdhd', 'hdlr', 'tkhd', 'trex', 'tfhd', 'trun'])
const mostRead = 60 * 1024
const mostTracks = 64

interface Track {
  id: number
  sound: boolean
  scale: number
  /** In units of time, of which a second has `scale`. */
  duration: number
  /** The duration of a sample, for fragments that do not give one. */
  sample: number
}

export class Mp4 implements SoundFormat {
  readonly #tracks: Track[] = []
  #movie = { scale: 0, duration: 0 }
  /** The fragment being read. */
  #fragment: { track: Track | undefined; sample: number } = { track: undefined, sample: 0 }

  take(bytes: Buffer): number {
    if (bytes.length < 16) return 0
    const type = bytes.toString('latin1', 4, 8)
    const given = bytes.readUInt32BE(0)
    const size = given === 1 ? Number(bytes.readBigUInt64BE(8)) : given === 0 ? Infinity : given
    const head = given === 1 ? 16 : 8
    if (size < head) throw new RangeError('a box is smaller than its head')
    if (containers.has(type)) {
      this.#enter(type)
      return head
    }
    if (!read.has(type) || size > mostRead) return size
    if (bytes.length < size) return 0
    this.#read(type, bytes.subarray(head, size))
    return size
  }

  seconds(): number | undefined {
    const sounds = this.#tracks.filter(({ sound, scale }) => sound && scale > 0)
    if (sounds.length > 0) return Math.max(...sounds.map(({ duration, scale }) => duration / scale))
    return this.#movie.scale > 0 ? this.#movie.duration / this.#movie.scale : undefined
  }

  #enter(type: string): void {
    if (type !== 'trak') return
    if (this.#tracks.length === mostTracks) throw new RangeError('too many tracks')
    this.#tracks.push({ id: 0, sound: false, scale: 0, duration: 0, sample: 0 })
  }

  #read(type: string, body: Buffer): void {
    const track = this.#tracks.at(-1)
    const long = body[0] === 1
    const flags = body.readUInt32BE(0) & 0xffffff
    if (type === 'mvhd') this.#movie = timesOf(body)
    else if (type === 'mdhd' && track) Object.assign(track, timesOf(body))
    else if (type === 'hdlr' && track) track.sound = body.toString('latin1', 8, 12) === 'soun'
    else if (type === 'tkhd' && track) track.id = body.readUInt32BE(long ? 20 : 12)
    else if (type === 'trex') this.#trackOf(body.readUInt32BE(4)).sample = body.readUInt32BE(12)
    else if (type === 'tfhd') {
      const of = this.#trackOf(body.readUInt32BE(4))
      const at = 8 + (flags & 1 ? 8 : 0) + (flags & 2 ? 4 : 0)
      this.#fragment = { track: of, sample: flags & 8 ? body.readUInt32BE(at) : of.sample }
    } else if (type === 'trun' && this.#fragment.track) this.#fragment.track.duration += this.#run(body, flags)
  }

  #run(body: Buffer, flags: number): number {
    const samples = body.readUInt32BE(4)
    if ((flags & 0x100) === 0) return samples * this.#fragment.sample
    const width = [0x100, 0x200, 0x400, 0x800].reduce((sum, flag) => sum + (flags & flag ? 4 : 0), 0)
    let duration = 0
    for (let at = 8 + (flags & 1 ? 4 : 0) + (flags & 4 ? 4 : 0); at + 4 <= body.length; at += width)
      duration += body.readUInt32BE(at)
    return duration
  }

  #trackOf(id: number): Track {
    return this.#tracks.find((track) => track.id === id) ?? { id, sound: false, scale: 0, duration: 0, sample: 0 }
  }
}

/** The times of a movie or of a track. A duration of all ones means that it is unknown. */
function timesOf(body: Buffer): { scale: number; duration: number } {
  if (body[0] !== 1)
    return { scale: body.readUInt32BE(12), duration: body.readUInt32BE(16) === 0xffffffff ? 0 : body.readUInt32BE(16) }
  const duration = body.readBigUInt64BE(24)
  return { scale: body.readUInt32BE(20), duration: duration === 0xffffffffffffffffn ? 0 : Number(duration) }
}
