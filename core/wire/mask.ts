// The masks of WebSocket frames (RFC 6455 §5.3): made, put on and taken off.
import { randomFillSync } from 'node:crypto'

/** The mask that changes nothing. */
export const noMask = 0

/** Payloads from this size on are changed in words. Views of words cost more than they save for smaller ones. */
const wordBytes = 128

/** Random bytes for masks: asking for four at a time would take longer than all the rest of a frame. */
const random = Buffer.allocUnsafeSlow(8 * 1024)
let used = random.length

/** Four unpredictable bytes, the first one highest. */
export function freshMask(): number {
  if (used === random.length) {
    randomFillSync(random)
    used = 0
  }
  const mask = random.readUInt32BE(used)
  used += 4
  return mask
}

const maskBytes = new Uint8Array(4)
const maskWord = new Int32Array(maskBytes.buffer)

/**
 * Puts a mask on the bytes from `from` to `to`, or takes it off. `come`: how many bytes of the payload are before
 * these.
 */
export function unmask(bytes: Buffer, from: number, to: number, mask: number, come: number): void {
  let at = from
  let place = come
  const alone = to - from < wordBytes ? to : from + (-(bytes.byteOffset + from) & 3)
  for (; at < alone; at++) bytes[at]! ^= mask >>> (24 - 8 * (place++ & 3))
  if (at === to) return
  for (let i = 0; i < 4; i++) maskBytes[i] = mask >>> (24 - 8 * ((place + i) & 3))
  const word = maskWord[0]!
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + at, (to - at) >> 2)
  for (let i = 0; i < words.length; i++) words[i]! ^= word
  at += words.length * 4
  for (; at < to; at++) bytes[at]! ^= mask >>> (24 - 8 * (place++ & 3))
}
