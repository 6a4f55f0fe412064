// Hears what PostgreSQL notifies of, on a connection of its own that is made anew when it is lost.
import { setTimeout as sleep } from 'node:timers/promises'
import { silentLog } from '../../../telling/log.ts'
import type { Logger } from '../../../telling/log.ts'
import { thrownStack } from '../../../thrown.ts'
import type { Address } from './address.ts'
import { DatabaseFault } from './fault.ts'
import type { Lineage } from './lineage.ts'
import { Session } from './session.ts'

/** The shortest and the longest pause before a connection is tried again, in milliseconds. */
const [firstPause, longestPause] = [50, 2000]
/** How often it is asked whether the connection still carries anything, and how long an answer may take. */
const [askEvery, askWithin] = [5000, 3000]

/** What is called when something was notified. Without a payload anything may have been, and was perhaps missed. */
export type Heard = (payload: string | undefined) => void

/** The numbers of a payload, between commas; undefined when it is anything else, as whoever connects may notify. */
export function numbersOf(payload: string | undefined): bigint[] | undefined {
  return payload !== undefined && /^\d{1,19}(?:,\d{1,19})*$/.test(payload) ? payload.split(',').map(BigInt) : undefined
}

/**
 * The listener of one process. Notifications are hints: they come to nobody who does not listen at that moment, and not
 * at all through a pooler that gives each transaction another connection. Who needs them all must also look regularly.
 */
export class Listener {
  readonly #address: Address
  readonly #name: string
  readonly #lineage: Lineage | undefined
  readonly #log: Logger
  readonly #heard = new Map<string, Set<Heard>>()
  readonly #stopping = new AbortController()
  readonly #loop: Promise<void>
  #session: Session | undefined

  constructor(address: Address, name: string, lineage?: Lineage, log: Logger = silentLog) {
    this.#address = address
    this.#name = name
    this.#lineage = lineage
    this.#log = log
    this.#loop = this.#listen()
  }

  /**
   * Calls `heard` for each notification of a channel, and once without a payload whenever listening begins, also again
   * after a connection was lost. `channel`: lower case, without quotes. What `heard` throws is logged: a payload may be
   * anything. Returns a function that ends this.
   */
  on(channel: string, heard: Heard): () => void {
    const known = this.#heard.get(channel)
    if (known) known.add(heard)
    else this.#heard.set(channel, new Set([heard]))
    if (this.#session) void this.#subscribe(this.#session, channel).catch(() => {})
    return () => void this.#heard.get(channel)?.delete(heard)
  }

  /** Whether notifications can arrive at present. */
  get listening(): boolean {
    return this.#session !== undefined
  }

  async close(): Promise<void> {
    this.#stopping.abort()
    await this.#session?.close()
    await this.#loop
  }

  async #listen(): Promise<void> {
    const { signal } = this.#stopping
    for (let pause = firstPause; !signal.aborted; pause = Math.min(pause * 2, longestPause)) {
      try {
        const session = await Session.open(this.#address, this.#name, this.#lineage)
        session.onNotification((channel, payload) => this.#tell(channel, payload))
        this.#session = session
        if (signal.aborted) return await session.close()
        for (const channel of this.#heard.keys()) await this.#subscribe(session, channel)
        pause = firstPause
        await this.#watch(session)
      } catch {
        // Whoever needs what is notified looks for it regularly, and says what is wrong.
      }
      this.#session?.destroy(new DatabaseFault('lost', 'the listener begins anew'))
      this.#session = undefined
      await sleep(pause * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {})
    }
  }

  async #subscribe(session: Session, channel: string): Promise<void> {
    await session.query(`listen ${channel}`, undefined, askWithin)
    this.#tell(channel, undefined)
  }

  #tell(channel: string, payload: string | undefined): void {
    for (const heard of this.#heard.get(channel) ?? [])
      try {
        heard(payload)
      } catch (error) {
        this.#log.error('a notification of PostgreSQL could not be handled', { channel, error: thrownStack(error) })
      }
  }

  /** A connection that was cut without a word looks like one on which nothing happens. */
  async #watch(session: Session): Promise<void> {
    const over = new AbortController()
    void session.ended.then(() => over.abort())
    this.#stopping.signal.addEventListener('abort', () => over.abort(), { once: true, signal: over.signal })
    while (!over.signal.aborted) {
      await sleep(askEvery, undefined, { signal: over.signal }).catch(() => {})
      if (!over.signal.aborted) await session.query('select 1', undefined, askWithin)
    }
  }
}
