// Measures how long a recording is from its beginning and its size.

/** The size and the beginning of a recording. */
export interface Recording {
  bytes: number
  head: Buffer
}

/** The bytes of a second of an unknown format: 128 kbit. */
const bytesPerSecond = 16_000

/**
 * The seconds, rounded to milliseconds. WAV, FLAC and MP3 of constant rate are measured; others are estimated from
 * their size.
 */
export function durationOf(recording: Recording): number {
  const seconds =
    wavSeconds(recording) ?? flacSeconds(recording) ?? mp3Seconds(recording) ?? recording.bytes / bytesPerSecond
  return Math.round(seconds * 1000) / 1000
}

/** http://soundfile.sapp.org/doc/WaveFormat/ */
function wavSeconds({ bytes, head }: Recording): number | undefined {
  if (head.toString('latin1', 0, 4) !== 'RIFF' || head.toString('latin1', 8, 12) !== 'WAVE') return undefined
  let byteRate = 0
  for (let at = 12; at + 8 <= head.length;) {
    const [id, size] = [head.toString('latin1', at, at + 4), head.readUInt32LE(at + 4)]
    if (id === 'fmt ' && at + 20 <= head.length) byteRate = head.readUInt32LE(at + 16)
    // A recording that was written into a pipe does not know its own size.
    if (id === 'data') return byteRate > 0 ? Math.min(size, bytes - at - 8) / byteRate : undefined
    at += 8 + size + (size % 2)
  }
  return undefined
}

/** https://www.rfc-editor.org/rfc/rfc9639#name-streaminfo */
function flacSeconds({ head }: Recording): number | undefined {
  if (head.toString('latin1', 0, 4) !== 'fLaC' || head.length < 26) return undefined
  const samplesPerSecond = head.readUIntBE(18, 3) >> 4
  const samples = (head[21]! & 0x0f) * 2 ** 32 + head.readUInt32BE(22)
  return samplesPerSecond > 0 && samples > 0 ? samples / samplesPerSecond : undefined
}

/** Kilobits per second of layer III, by the index in a frame's head. */
const mpeg1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0]
const mpeg2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0]

function mp3Seconds({ bytes, head }: Recording): number | undefined {
  const tag = head.length >= 10 && head.toString('latin1', 0, 3) === 'ID3'
  const start = tag ? 10 + [6, 7, 8, 9].reduce((size, at) => size * 128 + (head[at]! & 0x7f), 0) : 0
  if (start + 4 > head.length) return undefined
  // Eleven bits of the sync word, then layer III.
  if (head[start] !== 0xff || (head[start + 1]! & 0xe6) !== 0xe2) return undefined
  const rates = (head[start + 1]! & 0x18) === 0x18 ? mpeg1 : mpeg2
  const kilobits = rates[head[start + 2]! >> 4]!
  return kilobits > 0 ? ((bytes - start) * 8) / (kilobits * 1000) : undefined
}
