// Silence as Opus in Ogg: https://www.rfc-editor.org/rfc/rfc7845 and https://www.rfc-editor.org/rfc/rfc3533
import { sampleRate } from './sound.ts'
import type { SoundFormat } from './sound.ts'

/** A packet of 20 milliseconds without any coded sound. */
const packet = Buffer.from([0xf8, 0xff, 0xfe])
const packetsPerPage = 5
/** Opus counts samples at 48 kHz, whatever the real rate. */
const samplesPerSecond = 48_000
const samplesPerPacket = 960
/** Samples at the beginning that players leave out. */
const preSkip = 312

const continued = { first: 2, middle: 0, last: 4 } as const

export const opus: SoundFormat = {
  contentType: 'audio/ogg',
  headBytes: 88,
  bytesPerSecond: 460,
  *frames(seconds) {
    const samples = preSkip + Math.ceil(Math.max(seconds, 0) * samplesPerSecond)
    const packets = Math.ceil(samples / samplesPerPacket)
    yield Buffer.concat([page(0, continued.first, 0, [idHead()]), page(1, continued.middle, 0, [commentHead()])])
    for (let sent = 0, number = 2; sent < packets; number++) {
      const here = Math.min(packetsPerPage, packets - sent)
      sent += here
      const kind = sent === packets ? continued.last : continued.middle
      yield page(number, kind, Math.min(sent * samplesPerPacket, samples), Array<Buffer>(here).fill(packet))
    }
  }
}

function idHead(): Buffer {
  const head = Buffer.alloc(19)
  head.write('OpusHead', 'latin1')
  head.set([1, 1], 8)
  head.writeUInt16LE(preSkip, 10)
  head.writeUInt32LE(sampleRate, 12)
  return head
}

function commentHead(): Buffer {
  const vendor = Buffer.from('simulator')
  const head = Buffer.alloc(16 + vendor.length)
  head.write('OpusTags', 'latin1')
  head.writeUInt32LE(vendor.length, 8)
  head.set(vendor, 12)
  return head
}

/** A page. `granule`: how many samples there are up to its end. Every packet must be shorter than 255 bytes. */
function page(number: number, kind: number, granule: number, packets: readonly Buffer[]): Buffer {
  const head = Buffer.alloc(27 + packets.length)
  head.write('OggS', 'latin1')
  head[5] = kind
  head.writeBigUInt64LE(BigInt(granule), 6)
  head.writeUInt32LE(1, 14)
  head.writeUInt32LE(number, 18)
  head[26] = packets.length
  for (const [i, { length }] of packets.entries()) head[27 + i] = length
  const whole = Buffer.concat([head, ...packets])
  whole.writeUInt32LE(checksum(whole), 22)
  return whole
}

/** The checksum of Ogg: that of zlib without reversed bits. */
function checksum(bytes: Buffer): number {
  let value = 0
  for (const byte of bytes) value = ((value << 8) ^ table[(value >>> 24) ^ byte]!) >>> 0
  return value
}

const table = Array.from({ length: 256 }, (_, index) => {
  let value = index << 24
  for (let i = 0; i < 8; i++) value = value & 0x80000000 ? (value << 1) ^ 0x04c11db7 : value << 1
  return value >>> 0
})
