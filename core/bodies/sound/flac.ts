// FLAC: its head says how long it is. https://www.rfc-editor.org/rfc/rfc9639#name-streaminfo
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

/** The samples for each second, from the block STREAMINFO. */
export function flacRate(info: Buffer): number {
  return info.readUIntBE(10, 3) >> 4
}

/** Undefined when the encoder did not know the length at the beginning. */
function flacSeconds(info: Buffer): number | undefined {
  const samples = (info[13]! & 0x0f) * 2 ** 32 + info.readUInt32BE(14)
  return samples === 0 ? undefined : samples / flacRate(info)
}
