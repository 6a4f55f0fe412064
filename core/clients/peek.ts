// A connection that was just accepted: reads until its version of HTTP is known.
import type { Socket } from 'node:net'
import type { Watched } from '../watchdog/watchdog.ts'
import type { Inlet, Taker } from './inlet.ts'

/** The first bytes of HTTP/2's connection preface (RFC 9113 §3.4). No HTTP/1.1 method begins with them. */
const preface = Buffer.from('PRI')
const lineFeed = 0x0a

/** The owner of connections of which too little is known yet. Told once of each how it goes on. */
export interface PeekHost {
  /** `first`: what was read already, valid during the call. `client`: its address, where another process has it. */
  known(peek: Peek, isHttp2: boolean, first: Buffer, client: string | undefined): void
  /** It was closed, or given up. */
  left(peek: Peek): void
}

/** Gives the connection up when its version is not known in time, or the client closes it. */
export class Peek implements Taker, Watched {
  rosterPlace: number | undefined = undefined
  readonly inlet: Inlet
  readonly #host: PeekHost
  readonly #isInner: boolean
  /** The end of the time for it, as the watchdog counts. */
  #until: number
  #seen: Buffer | undefined
  #client: string | undefined
  readonly #leave = (): void => this.#given()

  /** `isInner`: it begins with a line that has the address of the client. `until`: as the watchdog counts. */
  constructor(inlet: Inlet, isInner: boolean, until: number, host: PeekHost) {
    this.inlet = inlet
    this.#isInner = isInner
    this.#until = until
    this.#host = host
    inlet.socket.on('end', this.#leave).on('close', this.#leave)
    inlet.feed(this)
  }

  check(now: number): void {
    if (now > this.#until) this.#given()
  }

  /** Leaves it no longer than until a time, as the watchdog counts. */
  hasten(until: number): void {
    this.#until = Math.min(this.#until, until)
  }

  input(bytes: Buffer): void {
    let first = this.#seen ? Buffer.concat([this.#seen, bytes]) : bytes
    if (this.#isInner && this.#client === undefined) {
      const end = first.indexOf(lineFeed)
      if (end === -1) return void (this.#seen = Buffer.from(first))
      this.#client = first.toString('latin1', 0, end)
      first = first.subarray(end + 1)
      this.#seen = undefined
      if (first.length === 0) return
    }
    const isHttp2 = beginsHttp2(first)
    if (isHttp2 === undefined) return void (this.#seen = Buffer.from(first))
    this.#forget(this.inlet.socket)
    this.#host.known(this, isHttp2, first, this.#client)
  }

  #given(): void {
    this.#forget(this.inlet.socket)
    this.#host.left(this)
    this.inlet.socket.destroy()
  }

  #forget(socket: Socket): void {
    socket.off('end', this.#leave).off('close', this.#leave)
  }
}

/** Undefined when too few bytes have come. */
function beginsHttp2(bytes: Buffer): boolean | undefined {
  const length = Math.min(bytes.length, preface.length)
  if (bytes.compare(preface, 0, length, 0, length) !== 0) return false
  return length === preface.length ? true : undefined
}
