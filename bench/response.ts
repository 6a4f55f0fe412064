// Reads the answers on one connection, and compares every byte of every body with what the upstream sent. The time in
// an event is read instead.
import { Script, eventSize } from './payload.ts'

/** Checks a body as it arrives, in pieces of any size. Throws at the first wrong byte. */
export interface Expected {
  /** Called when a new answer begins. */
  begin(): void
  check(bytes: Buffer, start: number, end: number): void
  /** Called at the end of the body. Throws when something is missing. */
  end(): void
}

/** One fixed body. */
export class ExpectedBody implements Expected {
  readonly #body: Buffer
  #at = 0

  constructor(body: Buffer) {
    this.#body = body
  }

  begin(): void {
    this.#at = 0
  }

  check(bytes: Buffer, start: number, end: number): void {
    const to = this.#at + end - start
    if (bytes.compare(this.#body, this.#at, Math.min(to, this.#body.length), start, end) !== 0)
      throw new Error('a byte of the body is wrong')
    this.#at = to
  }

  end(): void {
    if (this.#at !== this.#body.length) throw new Error(`the body has ${this.#at} of ${this.#body.length} bytes`)
  }
}

/** Called for each whole event, with the time at which the upstream sent it, by the {@link sharedMicroseconds}. */
export type OnEvent = (sentAt: number) => void

/** The numbered events of a {@link Script} and its tail. */
export class ExpectedEvents implements Expected {
  /** Shared by all streams of a process. An event is made again when another stream was checked in between. */
  static readonly #script = new Script()
  readonly #total: number
  readonly #onEvent: OnEvent
  #at = 0
  /** The time in the present event, as far as it has come. */
  #sentAt = 0

  constructor(total: number, onEvent: OnEvent) {
    this.#total = total
    this.#onEvent = onEvent
  }

  begin(): void {
    this.#at = this.#sentAt = 0
  }

  check(bytes: Buffer, start: number, end: number): void {
    const numbered = this.#total * eventSize
    while (start < end) {
      start = this.#at < numbered ? this.#checkEvent(bytes, start, end) : this.#checkTail(bytes, start, end)
    }
  }

  /** Checks the present event up to its time, in its time, or behind it. Returns the place after that. */
  #checkEvent(bytes: Buffer, start: number, end: number): number {
    const number = Math.floor(this.#at / eventSize)
    const offset = this.#at % eventSize
    const { stamp } = ExpectedEvents.#script
    const isTime = offset >= stamp.from && offset < stamp.to
    const partEnd = offset < stamp.from ? stamp.from : isTime ? stamp.to : eventSize
    const stop = Math.min(end, start + partEnd - offset)
    if (isTime) this.#readTime(bytes, start, stop)
    else {
      const expected = ExpectedEvents.#script.event(number, 0)
      if (bytes.compare(expected, offset, offset + stop - start, start, stop) !== 0)
        wrong(`event ${number}`, bytes, start)
    }
    this.#at += stop - start
    if (this.#at % eventSize === 0) {
      this.#onEvent(this.#sentAt)
      this.#sentAt = 0
    }
    return stop
  }

  #readTime(bytes: Buffer, start: number, end: number): void {
    for (let at = start; at < end; at++) {
      const digit = bytes[at]! - 0x30
      if (digit < 0 || digit > 9) wrong('the time of an event', bytes, start)
      this.#sentAt = this.#sentAt * 10 + digit
    }
  }

  #checkTail(bytes: Buffer, start: number, end: number): number {
    const offset = this.#at - this.#total * eventSize
    const length = Math.min(Script.tail.length - offset, end - start)
    if (length === 0) throw new Error('bytes after [DONE]')
    if (bytes.compare(Script.tail, offset, offset + length, start, start + length) !== 0)
      wrong('an event behind the numbered ones', bytes, start)
    this.#at += length
    return start + length
  }

  end(): void {
    const whole = this.#total * eventSize + Script.tail.length
    if (this.#at !== whole) throw new Error(`the stream ended after ${this.#at} of ${whole} bytes`)
  }
}

function wrong(what: string, bytes: Buffer, at: number): never {
  throw new Error(`${what} is wrong or missing: ${bytes.toString('latin1', at, Math.min(bytes.length, at + 200))}`)
}

/** The part of an answer that is being read. */
type State = 'head' | 'fixed' | 'size' | 'data' | 'data end' | 'last'

/** Reads one answer after another from a connection: status 200, with a length or chunked. Throws on anything else. */
export class ResponseReader {
  readonly #expected: Expected
  readonly #onEnd: () => void
  #state: State = 'head'
  /** The bytes of the body or chunk that are still to come. */
  #left = 0
  /** The incomplete head or size line of a chunk at the end of the last read. */
  #cut: Buffer | null = null

  constructor(expected: Expected, onEnd: () => void) {
    this.#expected = expected
    this.#onEnd = onEnd
  }

  /** The caller may reuse the bytes afterwards. */
  read(bytes: Buffer): void {
    if (this.#cut) {
      bytes = Buffer.concat([this.#cut, bytes])
      this.#cut = null
    }
    let at = 0
    while (at < bytes.length) {
      const next = this.#step(bytes, at)
      if (next < 0) {
        this.#cut = Buffer.from(bytes.subarray(at))
        return
      }
      at = next
    }
  }

  /** Reads one part from `at` on and returns the position after it; negative when the part is incomplete. */
  #step(bytes: Buffer, at: number): number {
    switch (this.#state) {
      case 'head':
        return this.#head(bytes, at)
      case 'fixed':
      case 'data': {
        const end = Math.min(at + this.#left, bytes.length)
        this.#expected.check(bytes, at, end)
        this.#left -= end - at
        if (this.#left === 0) {
          if (this.#state === 'fixed') this.#finish()
          else this.#state = 'data end'
        }
        return end
      }
      case 'size': {
        const end = bytes.indexOf('\r\n', at, 'latin1')
        if (end < 0) return -1
        const size = bytes.toString('latin1', at, end)
        if (!/^[0-9a-f]+$/i.test(size)) throw new Error(`"${size.slice(0, 20)}" is no chunk size`)
        this.#left = parseInt(size, 16)
        this.#state = this.#left === 0 ? 'last' : 'data'
        return end + 2
      }
      case 'data end':
      case 'last':
        if (bytes.length - at < 2) return -1
        if (bytes[at] !== 0x0d || bytes[at + 1] !== 0x0a) throw new Error('a chunk is longer than it says')
        if (this.#state === 'last') this.#finish()
        else this.#state = 'size'
        return at + 2
    }
  }

  #head(bytes: Buffer, at: number): number {
    const end = bytes.indexOf('\r\n\r\n', at, 'latin1')
    if (end < 0) return -1
    const head = bytes.toString('latin1', at, end)
    if (!head.startsWith('HTTP/1.1 200 '))
      throw new Error(`answered ${head.slice(9, 12)}: ${bytes.toString('latin1', end + 4, end + 300)}`)
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)
    if (length) {
      this.#left = Number(length[1])
      this.#state = 'fixed'
    } else if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
      this.#state = 'size'
    } else {
      throw new Error('the answer has neither a length nor chunks')
    }
    this.#expected.begin()
    return end + 4
  }

  #finish(): void {
    this.#expected.end()
    this.#state = 'head'
    this.#onEnd()
  }
}
