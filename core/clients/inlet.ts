// Reads a connection that was accepted, into memory that is used again.
import { Socket } from 'node:net'
import type { SocketConstructorOpts } from 'node:net'
import { free } from '../bodies/body-memory.ts'

/** All connections read into it, and take out what they read before anything else can run. */
const shared = Buffer.allocUnsafeSlow(64 * 1024)

/** Who takes what a connection reads. */
export interface Taker {
  /** Called for each read. The bytes are valid during the call only. */
  input(bytes: Buffer): void
  /**
   * Asked for after each read: where the next is to go instead, until it has come. Those bytes are nobody else's then,
   * whatever becomes of the taker.
   */
  readonly room?: Buffer | undefined
}

/**
 * The reading side of a connection. For every read of a socket that it accepted, Node makes 64 KiB of new memory, which
 * for a large body costs more than all that is done with it; only a socket that connects can be told where to read to.
 * So what Node accepted is given to a socket that is made as such a one is.
 */
export class Inlet {
  /** Of clear text, not the one that was accepted. */
  readonly socket: Socket
  readonly #inPlace: boolean
  #taker: Taker | undefined
  readonly #onData = (bytes: Buffer): void => {
    this.#taker!.input(bytes)
    free(bytes)
  }

  /** `accepted`: by a server with `pauseOnConnect`, or by one for TLS. Nothing of it has been read. */
  constructor(accepted: Socket) {
    // As old as Node's streams and not documented, as is the option below. Without them this would be slower, and no
    // more.
    const { _handle: handle } = accepted as { _handle?: object }
    this.#inPlace = handle !== undefined && !('encrypted' in accepted)
    this.socket = this.#inPlace ? this.#adopt(handle!) : accepted
    if (this.#inPlace) Object.assign(accepted, { _handle: null }).destroy()
  }

  /** From now on, what is read goes to `taker`. */
  feed(taker: Taker): void {
    const fed = this.#taker !== undefined
    this.#taker = taker
    if (!this.#inPlace && !fed) this.socket.on('data', this.#onData).resume()
  }

  /** The socket, which from now on is paused and like any other: what is read goes into its own queue. */
  release(): Socket {
    this.#taker = undefined
    return this.socket.off('data', this.#onData).pause()
  }

  #adopt(handle: object): Socket {
    const onread = {
      buffer: (): Buffer => this.#taker?.room ?? shared,
      callback: (length: number, bytes: Uint8Array): boolean => this.#read((bytes as Buffer).subarray(0, length))
    }
    return new Socket({ handle, onread, readable: true, writable: true } as SocketConstructorOpts)
  }

  /** False when no more is to be read for now. */
  #read(bytes: Buffer): boolean {
    if (!this.#taker) return this.socket.push(Buffer.from(bytes))
    this.#taker.input(bytes)
    return true
  }
}
