// What one plugin holds of an exchange, or of a turn of a session: all of it, with log lines and releases under its own
// name.
import type { AnySlot, Exchange } from '../../contract/contract.ts'
import type { Slot } from '../../contract/slots.ts'
import type { Turn } from '../../contract/turn.ts'
import type { Logger } from '../../telling/log.ts'

/** An exchange that can be seen by several plugins. */
export interface Shared extends Exchange<AnySlot> {
  /** Its lines carry the plugin's name. */
  logOf(plugin: string): Logger
  /** As {@link Exchange.defer}, for the plugin that took what is given back; undefined for the core. */
  deferFor(view: PluginView | undefined, call: Parameters<Exchange['defer']>[0]): void
}

/** A turn that can be seen by several plugins. */
export interface SharedTurn extends Turn {
  /** As {@link Turn.defer}, likewise. */
  deferFor(plugin: string, call: Parameters<Turn['defer']>[0]): void
  /** As {@link Turn.measure}, likewise. */
  measureFor(plugin: string, count: Parameters<Turn['measure']>[0]): void
}

/**
 * An exchange as one plugin sees it. A plugin may use it whenever it likes, also after an `await`: its log lines and
 * its releases bear its name, whichever plugin is running then.
 */
export class PluginView implements Exchange<AnySlot> {
  readonly plugin: string
  /** Milliseconds that the hooks of the plugin have taken of the exchange. */
  tookMs = 0
  readonly #live: Shared
  #log: Logger | undefined

  constructor(live: Shared, plugin: string) {
    this.#live = live
    this.plugin = plugin
  }

  get id(): string {
    return this.#live.id
  }

  get request(): Exchange['request'] {
    return this.#live.request
  }

  get body(): Exchange['body'] {
    return this.#live.body
  }

  get prompt(): Exchange['prompt'] {
    return this.#live.prompt
  }

  get model(): string {
    return this.#live.model
  }

  get requestedModel(): string {
    return this.#live.requestedModel
  }

  get streaming(): boolean {
    return this.#live.streaming
  }

  get receivedAt(): number {
    return this.#live.receivedAt
  }

  get rehearsal(): Exchange['rehearsal'] {
    return this.#live.rehearsal
  }

  get sponsor(): Exchange['sponsor'] {
    return this.#live.sponsor
  }

  get times(): Exchange['times'] {
    return this.#live.times
  }

  get startedAt(): number {
    return this.#live.startedAt
  }

  get signal(): AbortSignal {
    return this.#live.signal
  }

  get attempts(): Exchange['attempts'] {
    return this.#live.attempts
  }

  get candidates(): Exchange['candidates'] {
    return this.#live.candidates
  }

  get passed(): Exchange['passed'] {
    return this.#live.passed
  }

  get log(): Logger {
    return (this.#log ??= this.#live.logOf(this.plugin))
  }

  read(): ReturnType<Exchange['read']> {
    return this.#live.read()
  }

  get<T>(slot: Slot<T>): T {
    return this.#live.get(slot)
  }

  find<T>(slot: Slot<T>): T | undefined {
    return this.#live.find(slot)
  }

  set<T>(slot: Slot<T>, value: T): void {
    this.#live.set(slot, value)
  }

  setHeader(name: string, value: string | number): void {
    this.#live.setHeader(name, value)
  }

  replyHeader(name: string): string | undefined {
    return this.#live.replyHeader(name)
  }

  showAfter(durable: () => Promise<void>): void {
    this.#live.showAfter(durable)
  }

  defer(call: Parameters<Exchange['defer']>[0]): void {
    this.#live.deferFor(this, call)
  }
}

/** A turn as one plugin sees it, likewise. */
export class TurnView implements Turn {
  readonly #live: SharedTurn
  readonly #plugin: string

  constructor(live: SharedTurn, plugin: string) {
    this.#live = live
    this.#plugin = plugin
  }

  get part(): string {
    return this.#live.part
  }

  get asked(): boolean {
    return this.#live.asked
  }

  get input(): Turn['input'] {
    return this.#live.input
  }

  get maxOutput(): number | undefined {
    return this.#live.maxOutput
  }

  get begun(): boolean {
    return this.#live.begun
  }

  get reported(): Turn['reported'] {
    return this.#live.reported
  }

  get output(): number {
    return this.#live.output
  }

  get ended(): boolean {
    return this.#live.ended
  }

  get abandoned(): boolean {
    return this.#live.abandoned
  }

  get usage(): Turn['usage'] {
    return this.#live.usage
  }

  set usage(usage: Turn['usage']) {
    this.#live.usage = usage
  }

  showAfter(durable: Promise<void>): void {
    this.#live.showAfter(durable)
  }

  follow(told: (output: number) => void): void {
    this.#live.follow(told)
  }

  measure(count: Parameters<Turn['measure']>[0]): void {
    this.#live.measureFor(this.#plugin, count)
  }

  defer(call: Parameters<Turn['defer']>[0]): void {
    this.#live.deferFor(this.#plugin, call)
  }
}
