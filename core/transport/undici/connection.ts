// A connection on which undici speaks HTTP/1.1. A pool keeps it like the gateway's own connections.
import type { Socket } from 'node:net'
import type { Client as UndiciClient } from 'undici'
import { keepAliveMs } from '../http1/answer-head.ts'
import type { Answering, Carrier, Keeper } from '../carrier.ts'
import { Dial } from '../connecting/dialer.ts'
import type { Dialer } from '../connecting/dialer.ts'
import { ConnectionLost } from '../failure.ts'
import { maxHeadBytes } from '../http1/response-parser.ts'
import { Client } from './parts.ts'
import { UndiciCall } from './call.ts'
import type { Bearer } from './call.ts'

/** The engine enforces the time limits. Undici obeys an upstream's `keep-alive` header. */
const options = {
  headersTimeout: 0,
  bodyTimeout: 0,
  maxHeaderSize: maxHeadBytes,
  allowH2: false,
  keepAliveTimeout: keepAliveMs,
  keepAliveMaxTimeout: keepAliveMs,
  keepAliveTimeoutThreshold: 1000
} as const

/** Carries one call at a time. */
export class UndiciConnection implements Carrier, Bearer {
  readonly shared = false
  readonly #keeper: Keeper
  readonly #client: UndiciClient
  #dial: Dial | undefined
  #socket: Socket | undefined
  #call: UndiciCall | undefined
  #paused = false
  #reused = false
  #keptUntil = 0

  constructor(keeper: Keeper, origin: string, dialer: Dialer) {
    this.#keeper = keeper
    this.#client = new Client(origin, {
      ...options,
      connect: (_options, done) => {
        this.#dial = new Dial(dialer, keeper, (error, socket) => {
          this.#socket = socket ?? undefined
          if (socket) done(null, socket)
          else done(error!, null)
        })
      }
    })
  }

  get unsent(): boolean {
    return this.#call?.started === false
  }

  send(call: Answering): void {
    const handler = (this.#call = new UndiciCall(call, this))
    if (this.#paused) handler.pause()
    this.#client.dispatch(handler.request(call), handler)
  }

  pause(): void {
    this.#paused = true
    this.#call?.pause()
  }

  resume(): void {
    this.#paused = false
    this.#call?.resume()
  }

  destroy(): void {
    const call = this.#call
    this.#call = undefined
    call?.abort()
    this.#dial?.destroy()
    void this.#client.destroy()
  }

  wait(now: number): void {
    this.#keptUntil = now + keepAliveMs
  }

  usable(now: number): boolean {
    return this.#socket?.destroyed === false && now < this.#keptUntil
  }

  ended(): Error | undefined {
    const socket = this.#socket!
    // Undici takes a connection reset for the regular end of a body that ends with its connection.
    if (socket.errored) return new ConnectionLost('the connection was lost', { cause: socket.errored })
    this.#call = undefined
    this.#paused = false
    // The upstream would read the unsent rest as the beginning of the next request.
    if (socket.writableLength > 0) queueMicrotask(() => this.destroy())
    else {
      this.#reused = true
      // `released` may close the connection, while undici is still using it.
      queueMicrotask(() => this.#keeper.released(this))
    }
    return undefined
  }

  lost(): boolean {
    const unheard = this.#reused && !this.#call!.heard
    this.#call = undefined
    queueMicrotask(() => this.destroy())
    return unheard
  }
}
