// Baseline JPEG of a single grey: ITU-T T.81, https://www.w3.org/Graphics/JPEG/itu-t81.pdf
import { HighBits } from './bits.ts'
import { colourOf } from './picture.ts'
import type { Picture } from './picture.ts'

/** The quantum of every coefficient. The one of a block of a single grey is eight times the grey. */
const quantum = 8
/** How many sizes of differences are used. All their codes have four bits. */
const sizes = 12

export function jpegOf(picture: Picture): Buffer {
  const { width, height } = picture
  const frame = Buffer.from([8, 0, 0, 0, 0, 1, 1, 0x11, 0])
  frame.writeUInt16BE(height, 1)
  frame.writeUInt16BE(width, 3)
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    segment(0xe0, Buffer.from([0x4a, 0x46, 0x49, 0x46, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0])),
    segment(0xdb, Buffer.concat([Buffer.from([0]), Buffer.alloc(64, quantum)])),
    segment(0xc0, frame),
    segment(
      0xc4,
      huffmanTable(
        0x00,
        [0, 0, 0, sizes],
        Array.from({ length: sizes }, (_, i) => i)
      )
    ),
    segment(0xc4, huffmanTable(0x10, [1], [0])),
    segment(0xda, Buffer.from([1, 1, 0, 0, 63, 0])),
    scan(Math.ceil(width / 8) * Math.ceil(height / 8), colourOf(picture)[1] - 128),
    Buffer.from([0xff, 0xd9])
  ])
}

function segment(marker: number, data: Buffer): Buffer {
  const head = Buffer.from([0xff, marker, 0, 0])
  head.writeUInt16BE(data.length + 2, 2)
  return Buffer.concat([head, data])
}

/** `counts`: how many codes there are of each length, from one bit on. */
function huffmanTable(id: number, counts: readonly number[], symbols: readonly number[]): Buffer {
  const lengths = Buffer.alloc(16)
  lengths.set(counts)
  return Buffer.concat([Buffer.from([id]), lengths, Buffer.from(symbols)])
}

/** The picture data: each block has the difference to the one before, and then an end mark. */
function scan(blocks: number, level: number): Buffer {
  const bits = new HighBits()
  for (let i = 0; i < blocks; i++) {
    const difference = i === 0 ? level : 0
    const size = 32 - Math.clz32(Math.abs(difference))
    bits.write(size, 4).write(difference < 0 ? difference + (1 << size) - 1 : difference, size)
    bits.write(0, 1)
  }
  // A byte of ones is followed by a zero byte, so that it is not a marker.
  return Buffer.from(bits.pad(1).bytes.flatMap((byte) => (byte === 0xff ? [byte, 0] : [byte])))
}
