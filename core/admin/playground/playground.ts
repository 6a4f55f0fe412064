// Runs requests of people who use the admin API, by the engine and as those of clients: with a key, within its limits
// and budgets, and in the request log. What is bounded here is how many of them there are at once, and for how long.
import { createHash } from 'node:crypto'
import type { Front } from '../../clients/client.ts'
import type { Engine } from '../../exchange/engine.ts'
import { GatewayError, restarting } from '../../errors.ts'
import type { Actor } from '../api/audit.ts'
import type { Carrier } from '../api/contract.ts'
import { headersOf, targetOf } from './handed-on.ts'

/** The most runs at once: of one actor, and of all. */
const mostOfOne = 8
const most = 32
/** Milliseconds after which a run ends. */
const longest = 3_600_000

/** The playground of one admin listener. It stands for a server in the eyes of what is answered. */
export class Playground implements Front {
  readonly draining = false
  readonly keepAlive = 0
  readonly forwarder = undefined
  readonly #handle: Engine['handle']
  readonly #stall: () => number
  /** Who runs each request, and what ends it. */
  readonly #runs = new Map<() => void, string>()
  #closed = false

  /** `stall`: the milliseconds after which a client that does not read is cut off, as configured now. */
  constructor(handle: Engine['handle'], stall: () => number) {
    this.#handle = handle
    this.#stall = stall
  }

  get clientStall(): number {
    return this.#stall()
  }

  /** Called by answers: how many there are is seen by their connections here. */
  began(): void {}

  /** Called by answers. */
  ended(): void {}

  run(key: Buffer, by: Actor, { request, client, body, socket, over, watch }: Carrier): void {
    // Who left while it was noted that they ask: nothing would tell of the end of such a run.
    if (over.destroyed) return
    const who = `${by.kind} ${by.id}`
    if (this.#closed) throw restarting()
    this.#checkRoom(who)
    const target = targetOf(request)
    const headers = headersOf(request, by.requestId)
    const end = (): void => void over.destroy()
    const timer = setTimeout(end, longest).unref()
    const forget = watch(end)
    this.#runs.set(end, who)
    over.once('close', () => {
      clearTimeout(timer)
      forget()
      this.#runs.delete(end)
    })
    this.#handle({
      method: request.method ?? 'GET',
      target,
      headers,
      remoteAddress: by.address ?? '',
      httpVersion: '1.1',
      body,
      client,
      ...(socket && { socket }),
      sponsor: { kind: by.kind, id: by.id, key }
    })
  }

  /** Refuses new runs; those under way go on. */
  refuse(): void {
    this.#closed = true
  }

  /** Ends all runs. */
  close(): void {
    this.#closed = true
    for (const end of this.#runs.keys()) end()
  }

  #checkRoom(who: string): void {
    const own = [...this.#runs.values()].filter((one) => one === who).length
    if (own < mostOfOne && this.#runs.size < most) return
    const why = own < mostOfOne ? `${most} of everybody` : `${mostOfOne} of yours`
    throw new GatewayError(
      'rate_limit_concurrency',
      `The playground runs ${why} already, which is as many as it does at once: wait for one to end, or stop one.`,
      { retryAfterMs: 1000 }
    )
  }
}

/** The digest by which keys are found. */
export function digestOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest()
}
