// One connection to an upstream: sends a request, reads its answer through a shared buffer, and is kept for the next
// request.
import { Deadline } from '../../watchdog/deadline.ts'
import type { Socket } from 'node:net'
import { isPieces, lengthOf } from '../../bodies/upload.ts'
import type { StoredBody } from '../../bodies/upload.ts'
import { outgoing, outgoingBytes, writeOutgoing } from '../../wire/outgoing.ts'
import { blockBytes, giveBlock, takeBlock } from '../../wire/read-blocks.ts'
import type { Answering, Carrier, Keeper } from '../carrier.ts'
import { BadResponse, ConnectionLost, ConnectTimeout, SinkFailed } from '../failure.ts'
import { ResponseParser } from './response-parser.ts'

/** How much of a stored body is read and written at a time. */
const storedBytes = 256 * 1024
/**
 * After a read of at least this size, the next read goes into a block of its own. When that read is as large, its block
 * is handed on without a copy.
 */
const handedOnBytes = blockBytes / 2
/** Larger reads are seldom, and whoever borrows one would have to copy it to write it. */
const lentBytes = 8 * 1024

/** The memory that all connections read into. Each read is processed before the next one can happen. */
const shared = Buffer.allocUnsafeSlow(blockBytes)

/** Opens a socket that reads as `onread` says. */
export type Open = (onread: {
  buffer: () => Buffer
  callback: (length: number, bytes: Uint8Array) => boolean
}) => Socket

/** A connection made for a call. It connects at once, and speaks HTTP/1.1 with the gateway's own parser. */
export class Connection implements Carrier {
  /** How long it may wait for its next request, and the end of that time (`performance.now()`) while it waits. */
  #keepMs = 0
  #keptUntil = 0
  readonly #keeper: Keeper
  readonly #socket: Socket
  readonly #parser = new ResponseParser()
  readonly #connecting: Deadline
  #call: Answering | undefined
  #open = false
  #reused = false
  /** True when a byte of the current answer has come. */
  #heard = false
  #paused = false
  /** True while a stored body is being sent. */
  #storing = false
  /** The block for the next read, when that does not go to the shared memory. */
  #own: Buffer | undefined

  constructor(keeper: Keeper, open: Open, secure: boolean, connectTimeout: number) {
    this.#keeper = keeper
    keeper.opening()
    const socket = open({
      buffer: () => this.#own ?? shared,
      callback: (length, bytes) => {
        this.#read(length, Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
        return true
      }
    })
    this.#socket = socket
    socket.once(secure ? 'secureConnect' : 'connect', () => this.#connected())
    socket.on('end', () => this.#ended())
    socket.on('error', (cause) => this.#lost(cause))
    socket.on('close', () => this.#closed())
    this.#connecting = new Deadline(connectTimeout, () =>
      socket.destroy(new ConnectTimeout(`no connection within ${connectTimeout} ms`))
    )
  }

  get unsent(): boolean {
    return !this.#open || this.#storing || this.#socket.writableLength > 0
  }

  wait(now: number): void {
    this.#keptUntil = now + this.#keepMs
  }

  usable(now: number): boolean {
    return !this.#socket.destroyed && now < this.#keptUntil
  }

  send(call: Answering): void {
    this.#call = call
    this.#heard = false
    this.#parser.begin()
    if (this.#open) this.#write(call)
  }

  pause(): void {
    if (this.#paused) return
    this.#paused = true
    this.#socket.pause()
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#socket.resume()
  }

  destroy(): void {
    this.#call = undefined
    this.#socket.destroy()
  }

  #connected(): void {
    this.#connecting.clear()
    this.#open = true
    this.#keeper.opened()
    if (this.#call) this.#write(this.#call)
  }

  #write({ head, body }: Answering): void {
    const socket = this.#socket
    if (!isPieces(body)) return void this.#writeStored(head, body)
    const length = lengthOf(body)
    if (head.length + length <= outgoingBytes) {
      const bytes = outgoing(head.length + length)
      let at = bytes.write(head, 'latin1')
      for (const piece of body) at += piece.copy(bytes, at)
      writeOutgoing(socket, bytes)
    } else {
      socket.cork()
      socket.write(Buffer.from(head, 'latin1'))
      for (const piece of body) socket.write(piece)
      socket.uncork()
    }
  }

  /**
   * Sends a stored body as fast as the socket takes it, through one block of memory. New memory for each part would
   * leave megabytes of garbage.
   */
  async #writeStored(head: string, body: StoredBody): Promise<void> {
    const socket = this.#socket
    this.#storing = true
    socket.write(head, 'latin1')
    const block = Buffer.allocUnsafeSlow(Math.min(storedBytes, body.length))
    try {
      for (let at = 0; at < body.length && !socket.destroyed;) {
        const read = await body.read(block, at)
        at += read
        // The listeners of the socket see whether this write failed.
        await new Promise<unknown>((resolve) => socket.write(block.subarray(0, read), resolve))
      }
    } catch (cause) {
      this.#lost(new SinkFailed('the body could not be read', { cause }))
    } finally {
      this.#storing = false
    }
  }

  /**
   * Takes everything out of the buffer before it calls the call, which may then do anything, such as send the next
   * request. What is lent stays there: no socket is read before the event loop goes on.
   */
  #read(length: number, bytes: Buffer): void {
    const call = this.#call
    // Bytes that no request asked for must not be taken for the next answer.
    if (call === undefined) return this.destroy()
    const parser = this.#parser
    const hadHead = parser.head !== undefined
    this.#heard = true
    parser.push(bytes, length)
    const chunk = parser.to > parser.from ? this.#chunkOf(call, bytes, parser.from, parser.to) : undefined
    if (length >= handedOnBytes && !parser.ended) this.#own ??= takeBlock()
    else if (this.#own) {
      giveBlock(this.#own)
      this.#own = undefined
    }
    const { head, fault } = parser
    if (head) {
      try {
        if (!hadHead) call.onHead(head.status, head.headers)
        if (chunk && this.#call === call) call.onData(chunk)
      } catch (thrown) {
        return this.#lost(new SinkFailed('the sink threw', { cause: thrown }))
      }
      if (this.#call !== call) return
    }
    if (fault) this.#lost(fault)
    else if (parser.ended) this.#end(call, parser.excess === 0 ? head!.keepMs : 0)
  }

  /** A copy of the bytes, or their own block, that the sink may keep; the bytes themselves where it borrows. */
  #chunkOf(call: Answering, bytes: Buffer, from: number, to: number): Buffer {
    const length = to - from
    if (length <= lentBytes && call.borrows) return bytes.subarray(from, to)
    if (bytes === this.#own && length >= handedOnBytes) {
      this.#own = undefined
      return bytes.subarray(from, to)
    }
    const kept = Buffer.allocUnsafe(length)
    bytes.copy(kept, 0, from, to)
    return kept
  }

  /**
   * Ends a complete answer. When the request is not sent completely by then, the connection is closed, because the
   * upstream would read the rest as the next request.
   */
  #end(call: Answering, keepMs: number): void {
    this.#call = undefined
    if (keepMs === 0 || this.#storing || this.#socket.writableLength > 0) this.destroy()
    else {
      this.resume()
      this.#reused = true
      this.#keepMs = keepMs
      this.#keeper.released(this)
    }
    call.onEnd()
  }

  #ended(): void {
    const call = this.#call
    if (call && this.#parser.endsWithConnection) this.#end(call, 0)
    else this.#lost(new Error('the upstream closed the connection'))
  }

  #lost(cause: Error): void {
    const call = this.#call
    const known = cause instanceof BadResponse || cause instanceof SinkFailed || !this.#open
    const { unsent } = this
    this.destroy()
    const lost = known ? cause : new ConnectionLost('the connection was lost', { cause, unsent })
    call?.onLost(lost, this.#reused && !this.#heard)
  }

  #closed(): void {
    this.#connecting.clear()
    this.#keeper.closed(this.#open)
    this.#lost(new Error('the connection was closed'))
  }
}
