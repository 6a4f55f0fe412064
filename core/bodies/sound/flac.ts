// FLAC: as long as its head says. https://www.rfc-editor.org/rfc/rfc9639#name-streaminfo
import type { SoundFormat } from './walk.ts'

export class Flac implements SoundFormat {
  #seconds: number | undefined

  take(bytes: Buffer): number {
    if (bytes.length < 26) return 0
    this.#seconds = flacSeconds(bytes.subarray(8))
    return Infinity
  }

  seconds(): number | undefined {
    return this.#seconds
  }
}

/** Samples in a second, of the block STREAMINFO. */
export function flacRate(info: Buffer): number {
  return info.readUIntBE(10, 3) >> 4
}

/** Undefined when a stream did not know its length when it began. */
function flacSeconds(info: Buffer): number | undefined {
  const samples = (info[13]! & 0x0f) * 2 ** 32 + info.readUInt32BE(14)
  return samples === 0 ? undefined : samples / flacRate(info)
}
