// Knows the head of a request by the bytes of the one before on its connection: most clients say the same each time,
// but for the length of the body.
import { headerFields } from '../../wire/header-fields.ts'
import type { Http1Head } from './request-head.ts'

/** The longest head that is kept, in bytes. */
const longest = 4096
/** After so many heads in a row that were unlike the one before them, none is kept on this connection any more. */
const patience = 4
const mostDigits = 15
const zero = 0x30
const nine = 0x39
const none = Buffer.alloc(0)
/** What is before the digits of a length, and the digits. A head that was accepted has no second length. */
const lengthPattern = /(\r\ncontent-length:[\t ]*)(\d+)/i

/** The latest head of a connection. */
export class HeadBefore {
  /** Where the head ends that was recognized last. */
  end = 0
  #head: Http1Head | undefined
  /** All of it. The digits of its length are from `#from` to `#to`, at its end where it has none. */
  #bytes = none
  #from = 0
  #to = 0
  #unlike = 0

  /**
   * The head that begins at `at`, if all of it is there and it is the one before again, with whatever length of its
   * body; undefined for any other, which is to be read.
   */
  recognize(bytes: Buffer, at: number): Http1Head | undefined {
    const before = this.#head
    if (before === undefined) return undefined
    const digitsAt = at + this.#from
    const behind = this.#endOfDigits(bytes, digitsAt)
    const end = behind + this.#bytes.length - this.#to
    if (
      behind === -1 ||
      end > bytes.length ||
      bytes.compare(this.#bytes, 0, this.#from, at, digitsAt) !== 0 ||
      bytes.compare(this.#bytes, this.#to, this.#bytes.length, behind, end) !== 0
    ) {
      this.#unlike++
      this.#head = undefined
      return undefined
    }
    this.#unlike = 0
    this.end = end
    return copyOf(before, behind === digitsAt ? undefined : bytes.toString('latin1', digitsAt, behind))
  }

  /** Keeps a head that was accepted, unless it has lists, which hardly any has. `text`: all of it, as it was sent. */
  keep(head: Http1Head, text: string): void {
    if (this.#unlike > patience || text.length > longest || Object.values(head.headers).some(Array.isArray)) return
    const found = lengthPattern.exec(text)
    this.#head = copyOf(head)
    this.#bytes = Buffer.from(text, 'latin1')
    this.#from = found ? found.index + found[1]!.length : text.length
    this.#to = found ? this.#from + found[2]!.length : text.length
  }

  /** Where the digits end that begin there; -1 where there are none, or too many. */
  #endOfDigits(bytes: Buffer, from: number): number {
    if (this.#from === this.#to) return from
    let to = from
    while (to < bytes.length && bytes[to]! >= zero && bytes[to]! <= nine) to++
    return to === from || to - from > mostDigits ? -1 : to
  }
}

/** A head of its own, as whoever gets it may change it. `digits`: the length that it has instead. */
function copyOf(head: Http1Head, digits?: string): Http1Head {
  const headers = headerFields<string | string[] | undefined>()
  for (const name in head.headers) headers[name] = head.headers[name]
  if (digits !== undefined) headers['content-length'] = digits
  const { method, target, httpVersion, persistent, expects, webSocket } = head
  const length = digits === undefined ? head.length : Number(digits)
  return { method, target, headers, httpVersion, length, persistent, expects, webSocket }
}
