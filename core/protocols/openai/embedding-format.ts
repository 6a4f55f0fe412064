// Rewrites embeddings into the form that the client asked for, numbers or base64, if the upstream answers in the other.

/**
 * `base64`: little-endian IEEE 754 single precision, one after the other.
 * https://platform.openai.com/docs/api-reference/embeddings
 */
export type EmbeddingFormat = 'float' | 'base64'

/** The longest number, in bytes. No real one has more digits. */
const longestNumber = 64
/** The longest vector in base64, in bytes: far above any model's. */
const longestVector = 4 * 1024 * 1024

const quote = 0x22
const backslash = 0x5c

/**
 * Rewrites an upstream's answer piece by piece: only the values of `embedding` members, and only those in the other
 * form. It keeps at most one vector.
 */
export class EmbeddingRewriter {
  readonly #wanted: EmbeddingFormat
  #state: 'outside' | 'text' | 'escape' | 'key' | 'value' | 'numbers' | 'base64' = 'outside'
  /** How many characters of the key `embedding` have matched; -1 when it is another key. */
  #matched = -1
  #number = ''
  readonly #vector: number[] = []
  #base64 = ''

  constructor(wanted: EmbeddingFormat) {
    this.#wanted = wanted
  }

  /**
   * The rewritten bytes. A vector that is not complete comes with a later call.
   * @throws Error when a vector is not valid
   */
  push(chunk: Buffer): Buffer {
    const out: Buffer[] = []
    let kept = this.#state === 'numbers' || this.#state === 'base64' ? chunk.length : 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]!
      switch (this.#state) {
        case 'outside':
          if (byte !== quote) break
          this.#state = 'text'
          this.#matched = 0
          break
        case 'text':
          if (byte === backslash) this.#state = 'escape'
          else if (byte === quote) this.#state = this.#matched === key.length ? 'key' : 'outside'
          else this.#matched = this.#matched >= 0 && byte === key[this.#matched] ? this.#matched + 1 : -1
          break
        case 'escape':
          this.#state = 'text'
          this.#matched = -1
          break
        case 'key':
          if (byte === 0x3a) this.#state = 'value'
          else if (!isSpace(byte)) this.#state = 'outside'
          break
        case 'value':
          if (isSpace(byte)) break
          if (byte === 0x5b && this.#wanted === 'base64') this.#state = 'numbers'
          else if (byte === quote && this.#wanted === 'float') this.#state = 'base64'
          else {
            this.#state = byte === quote ? 'text' : 'outside'
            this.#matched = -1
            break
          }
          out.push(chunk.subarray(kept, at))
          kept = chunk.length
          break
        case 'numbers':
          if (byte === 0x2c || byte === 0x5d) this.#take()
          else if (!isSpace(byte)) this.#number += String.fromCharCode(byte)
          if (this.#number.length > longestNumber || this.#vector.length > longestVector / 4)
            throw new Error('a vector is too long')
          if (byte !== 0x5d) break
          out.push(Buffer.from(`"${bytesOf(this.#vector).toString('base64')}"`))
          this.#vector.length = 0
          this.#state = 'outside'
          kept = at + 1
          break
        case 'base64': {
          const end = chunk.indexOf(quote, at)
          this.#base64 += chunk.toString('latin1', at, end === -1 ? chunk.length : end)
          if (this.#base64.length > longestVector) throw new Error('a vector is too long')
          if (end === -1) {
            at = chunk.length
            break
          }
          out.push(Buffer.from(JSON.stringify(numbersOf(this.#base64))))
          this.#base64 = ''
          this.#state = 'outside'
          at = end
          kept = end + 1
          break
        }
      }
    }
    out.push(chunk.subarray(Math.min(kept, chunk.length)))
    return out.length === 1 ? out[0]! : Buffer.concat(out)
  }

  #take(): void {
    const text = this.#number
    this.#number = ''
    if (text === '' && this.#vector.length === 0) return
    const number = Number(text)
    if (text === '' || !Number.isFinite(number)) throw new Error('a vector holds what is no number')
    this.#vector.push(number)
  }
}

const key = Buffer.from('embedding')

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

/** The numbers as little-endian IEEE 754 single precision. */
export function bytesOf(vector: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(vector.length * 4)
  for (const [index, number] of vector.entries()) bytes.writeFloatLE(number, index * 4)
  return bytes
}

/** The numbers of a vector in base64, each with the fewest digits that give the same single-precision number. */
export function numbersOf(base64: string): number[] {
  const bytes = Buffer.from(base64.replaceAll('\\/', '/'), 'base64')
  if (bytes.length % 4 !== 0) throw new Error('a vector is cut')
  const numbers: number[] = []
  for (let at = 0; at < bytes.length; at += 4) numbers.push(shortest(bytes.readFloatLE(at)))
  return numbers
}

function shortest(single: number): number {
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(single.toPrecision(digits))
    if (Math.fround(short) === single) return short
  }
  return single
}
