// Lossless WebP of one colour: https://www.rfc-editor.org/rfc/rfc9649
import { LowBits } from './bits.ts'
import { colourOf } from './picture.ts'
import type { Picture } from './picture.ts'

export function webpOf(picture: Picture): Buffer {
  const { width, height } = picture
  const [red, green, blue] = colourOf(picture)
  const bits = new LowBits()
    .write(0x2f, 8)
    .write(width - 1, 14)
    .write(height - 1, 14)
    .write(0, 1)
    .write(0, 3)
  // No transform, no colour cache, one group of codes.
  bits.write(0, 3)
  // A code with a single symbol has no bits, so the pixels take no bits at all.
  for (const symbol of [green, red, blue, 255]) bits.write(1, 1).write(0, 1).write(1, 1).write(symbol, 8)
  bits.write(1, 1).write(0, 1).write(0, 1).write(0, 1)
  const data = Buffer.from(bits.bytes)
  const padded = Buffer.concat([data, Buffer.alloc(data.length % 2)])
  const head = Buffer.from('RIFF\0\0\0\0WEBPVP8L\0\0\0\0', 'latin1')
  head.writeUInt32LE(12 + padded.length, 4)
  head.writeUInt32LE(data.length, 16)
  return Buffer.concat([head, padded])
}
