// MP4 that shows one picture for the whole length: ISO/IEC 14496-12; the picture is Motion JPEG.
import { jpegOf } from './jpeg.ts'
import type { Picture } from './picture.ts'

/** Units of time per second. */
const timescale = 1000
/** The number of Motion JPEG among the codecs of MPEG-4: https://mp4ra.org/registered-types/object-types */
const motionJpeg = 0x6c

export function mp4Of(picture: Picture, seconds: number): Buffer {
  const frame = jpegOf(picture)
  const type = box('ftyp', Buffer.from('isom\0\0\x02\0isomiso2mp41', 'latin1'))
  const duration = seconds * timescale
  const movie = (offset: number): Buffer =>
    box('moov', movieHead(duration), track(picture, duration, frame.length, offset))
  const offset = type.length + movie(0).length + 8
  return Buffer.concat([type, movie(offset), box('mdat', frame)])
}

/** A box that players skip, to make a file longer by exactly this many bytes, at least eight. */
export function* padding(bytes: number): Generator<Buffer> {
  const head = Buffer.alloc(8)
  head.writeUInt32BE(bytes, 0)
  head.write('free', 4, 'latin1')
  yield head
  for (let left = bytes - head.length; left > 0; left -= zeros.length) yield zeros.subarray(0, left)
}

const zeros = Buffer.alloc(64 * 1024)

function box(type: string, ...content: Buffer[]): Buffer {
  const body = Buffer.concat(content)
  const head = Buffer.alloc(8)
  head.writeUInt32BE(body.length + 8, 0)
  head.write(type, 4, 'latin1')
  return Buffer.concat([head, body])
}

/** A box that begins with a version, which is 0, and flags. */
function fullBox(type: string, flags: number, ...content: Buffer[]): Buffer {
  return box(type, words(flags), ...content)
}

/** Numbers of four bytes each. */
function words(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [i, value] of values.entries()) bytes.writeUInt32BE(value, i * 4)
  return bytes
}

const fixed = (value: number): number => value * 0x10000
/** The identity matrix: neither rotated nor moved. */
const matrix = words(fixed(1), 0, 0, 0, fixed(1), 0, 0, 0, 0x40000000)

function movieHead(duration: number): Buffer {
  return fullBox(
    'mvhd',
    0,
    words(0, 0, timescale, duration, fixed(1), 0x01000000, 0, 0),
    matrix,
    words(0, 0, 0, 0, 0, 0, 2)
  )
}

function track({ width, height }: Picture, duration: number, bytes: number, offset: number): Buffer {
  const visible = 3
  const references = fullBox('dref', 0, words(1), fullBox('url ', 1))
  return box(
    'trak',
    fullBox('tkhd', visible, words(0, 0, 1, 0, duration, 0, 0, 0, 0), matrix, words(fixed(width), fixed(height))),
    box(
      'mdia',
      // The language is unknown: "und", with five bits for each letter.
      fullBox('mdhd', 0, words(0, 0, timescale, duration, 0x55c40000)),
      fullBox('hdlr', 0, words(0), Buffer.from('vide', 'latin1'), words(0, 0, 0), Buffer.from('simulator\0', 'latin1')),
      box(
        'minf',
        fullBox('vmhd', 1, words(0, 0)),
        box('dinf', references),
        box(
          'stbl',
          fullBox('stsd', 0, words(1), sampleEntry(width, height)),
          fullBox('stts', 0, words(1, 1, duration)),
          fullBox('stsc', 0, words(1, 1, 1, 1)),
          fullBox('stsz', 0, words(0, 1, bytes)),
          fullBox('stco', 0, words(1, offset))
        )
      )
    )
  )
}

function sampleEntry(width: number, height: number): Buffer {
  const entry = Buffer.alloc(78)
  entry.writeUInt16BE(1, 6)
  entry.writeUInt16BE(width, 24)
  entry.writeUInt16BE(height, 26)
  // 72 dots per inch, one frame per sample, 24 bits of colour, no colour table.
  entry.writeUInt32BE(fixed(72), 28)
  entry.writeUInt32BE(fixed(72), 32)
  entry.writeUInt16BE(1, 40)
  entry.writeUInt16BE(24, 74)
  entry.writeUInt16BE(0xffff, 76)
  // The descriptor of the stream (3), with those of the decoder (4) and of synchronisation (6).
  const decoder = Buffer.from([4, 13, motionJpeg, 0x11, ...Array<number>(11).fill(0)])
  const stream = Buffer.from([3, 3 + decoder.length + 3, 0, 1, 0, ...decoder, 6, 1, 2])
  return box('mp4v', entry, fullBox('esds', 0, stream))
}
