// Runs requests of people who use the admin API, by the engine and as those of clients: with a key, within its limits
// and budgets, and in the request log. What is bounded here is how many of them there are at once, and for how long.
import type { Front } from '../../clients/client.ts'
import type { Engine } from '../../exchange/engine.ts'
import { GatewayError, restarting } from '../../errors.ts'
import type { Actor } from '../api/audit.ts'
import type { Carrier } from '../api/contract.ts'
import { Places } from '../places.ts'
import type { PlaceBounds } from '../places.ts'
import { headersOf, targetOf } from './handed-on.ts'

/** The most runs at once. */
const bounds: PlaceBounds = { all: 32, tenants: 24, tenant: 12, one: 8 }
/** Milliseconds after which a run ends. */
const longest = 3_600_000

/** The playground of one admin listener. It stands for a server in the eyes of what is answered. */
export class Playground implements Front {
  readonly draining = false
  readonly keepAlive = 0
  readonly forwarder = undefined
  readonly #handle: Engine['handle']
  readonly #stall: () => number
  readonly #places = new Places(bounds)
  /** What ends each run. */
  readonly #runs = new Set<() => void>()
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
    if (this.#closed) throw restarting()
    this.#checkRoom(by)
    const target = targetOf(request)
    const headers = headersOf(request, by.requestId)
    const end = (): void => void over.destroy()
    const timer = setTimeout(end, longest).unref()
    const forget = watch(end)
    const leave = this.#places.take(by)
    this.#runs.add(end)
    over.once('close', () => {
      clearTimeout(timer)
      forget()
      leave()
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
    for (const end of this.#runs) end()
  }

  #checkRoom(by: Actor): void {
    const lacking = this.#places.lacking(by)
    if (!lacking) return
    throw new GatewayError(
      'rate_limit_concurrency',
      `The playground runs ${bounds[lacking]} of ${whose[lacking]} already, which is as many as it does at once: wait for one to end, or stop one.`,
      { retryAfterMs: 1000 }
    )
  }
}

const whose = { one: 'yours', tenant: 'your tenant', tenants: 'tenants', all: 'everybody' } as const
