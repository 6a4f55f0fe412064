// WebM and Matroska: as long as the head says, or as the last block. https://www.rfc-editor.org/rfc/rfc9559
import type { SoundFormat } from './walk.ts'

const ids = {
  segment: 0x18538067,
  info: 0x1549a966,
  cluster: 0x1f43b675,
  group: 0xa0,
  scale: 0x2ad7b1,
  duration: 0x4489,
  time: 0xe7,
  block: 0xa1,
  simpleBlock: 0xa3
} as const
/**
 * Elements whose contents are read. They may have an unknown size, and then end where the next one of their kind
 * begins.
 */
const containers: ReadonlySet<number> = new Set([ids.segment, ids.info, ids.cluster, ids.group])

export class WebM implements SoundFormat {
  /** The nanoseconds of one unit of time. */
  #scale = 1_000_000
  #duration = 0
  #cluster = 0
  #last = 0

  take(bytes: Buffer): number {
    const id = varint(bytes, 0, false)
    const size = id && varint(bytes, id.length, true)
    if (!id || !size) return 0
    const head = id.length + size.length
    if (containers.has(id.value)) return head
    if (size.value === Infinity) throw new RangeError('an element has no end')
    const block = id.value === ids.block || id.value === ids.simpleBlock
    if (!block && id.value !== ids.scale && id.value !== ids.duration && id.value !== ids.time) return head + size.value
    const needed = Math.min(size.value, 16)
    if (bytes.length < head + needed) return 0
    this.#read(id.value, bytes.subarray(head, head + needed), block)
    return head + size.value
  }

  seconds(): number | undefined {
    // Recorders that stream write no duration at the beginning.
    const units = Math.max(this.#duration, this.#last)
    return units > 0 ? (units * this.#scale) / 1e9 : undefined
  }

  #read(id: number, value: Buffer, block: boolean): void {
    if (block) {
      const track = varint(value, 0, true)
      if (track && value.length >= track.length + 2)
        this.#last = Math.max(this.#last, this.#cluster + value.readInt16BE(track.length))
    } else if (id === ids.duration)
      this.#duration = value.length === 4 ? value.readFloatBE(0) : value.length === 8 ? value.readDoubleBE(0) : 0
    else if (id === ids.scale) this.#scale = whole(value)
    else this.#cluster = whole(value)
  }
}

/** Reads a number of variable length; undefined when more bytes are needed. `Infinity`: an unknown size. */
function varint(bytes: Buffer, at: number, masked: boolean): { value: number; length: number } | undefined {
  const first = bytes[at]
  if (first === undefined) return undefined
  if (first === 0) throw new RangeError('a number is longer than any')
  const length = Math.clz32(first) - 23
  if (bytes.length < at + length) return undefined
  let value = masked ? first & (0xff >> length) : first
  let ones = value === 0xff >> length
  for (let i = 1; i < length; i++) {
    value = value * 256 + bytes[at + i]!
    ones &&= bytes[at + i] === 0xff
  }
  return { value: masked && ones ? Infinity : value, length }
}

function whole(value: Buffer): number {
  return value.reduce((sum, byte) => sum * 256 + byte, 0)
}
