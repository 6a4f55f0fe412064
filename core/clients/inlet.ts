// Reads an accepted connection into memory that is used again.
import { Socket } from 'node:net'
import type { SocketConstructorOpts } from 'node:net'
import { free } from '../bodies/body-memory.ts'

/** The memory that all connections read into. Each read is processed before the next one can happen. */
const shared = Buffer.allocUnsafeSlow(64 * 1024)

/** Takes what a connection reads. */
export interface Taker {
  /** Called for each read. The bytes are valid during the call only. */
  input(bytes: Buffer): void
  /**
   * Memory for the next read to go to instead of the shared one; asked for after each read. Nothing else may use these
   * bytes until the read has come, even when the taker is gone.
   */
  readonly room?: Buffer | undefined
}

/**
 * The reading side of a connection. For every read of an accepted socket, Node allocates 64 KiB, which for a large body
 * costs more than everything else. Only a socket that connects can be given memory to read into. So the handle of the
 * accepted socket is moved to a new socket that has such memory.
 */
export class Inlet {
  /** With TLS, the accepted socket; otherwise the new one that took its place. */
  readonly socket: Socket
  readonly #inPlace: boolean
  #taker: Taker | undefined
  /** Listens where the socket has memory of its own, once it is fed. */
  #onData: ((bytes: Buffer) => void) | undefined

  /** `accepted`: a socket of a server with `pauseOnConnect`, or of a TLS server. Nothing of it may have been read. */
  constructor(accepted: Socket) {
    // The handle and the option `handle` below are as old as Node's streams, but not documented. Without them the
    // connection would be slower, and nothing else would change.
    const { _handle: handle } = accepted as { _handle?: object }
    this.#inPlace = handle !== undefined && !('encrypted' in accepted)
    this.socket = this.#inPlace ? this.#adopt(handle!) : accepted
    if (this.#inPlace) Object.assign(accepted, { _handle: null }).destroy()
  }

  /** From now on, `taker` gets what is read. */
  feed(taker: Taker): void {
    this.#taker = taker
    if (this.#inPlace || this.#onData) return
    const onData = (bytes: Buffer): void => {
      this.#taker!.input(bytes)
      free(bytes)
    }
    this.#onData = onData
    this.socket.on('data', onData).resume()
  }

  /** Gives the socket back, paused. From now on it puts what it reads into its own queue, like any other socket. */
  handOver(): Socket {
    this.#taker = undefined
    if (this.#onData) this.socket.off('data', this.#onData)
    this.#onData = undefined
    return this.socket.pause()
  }

  #adopt(handle: object): Socket {
    const onread = {
      buffer: (): Buffer => this.#taker?.room ?? shared,
      callback: (length: number, bytes: Uint8Array): boolean => this.#read((bytes as Buffer).subarray(0, length))
    }
    return new Socket({ handle, onread, readable: true, writable: true } as SocketConstructorOpts)
  }

  /** False when reading should pause. */
  #read(bytes: Buffer): boolean {
    if (!this.#taker) return this.socket.push(Buffer.from(bytes))
    this.#taker.input(bytes)
    return true
  }
}
