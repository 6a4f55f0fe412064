// Typed places on an exchange: what one plugin fills and others read.
import type { Usage } from '../money/usage.ts'
import type { Caller } from '../catalogue/caller.ts'
import type { AttemptCost, Reservation } from '../store/ledger.ts'
import type { RequestRecord } from '../store/requests.ts'

/** A typed key. `index` is its place in the exchange's array, so a read costs an array load. */
export interface Slot<T, Name extends string = string> {
  readonly name: Name
  readonly index: number
  /** Phantom: carries the type only. */
  readonly type?: T
}

/** Of any type. */
export type AnySlot = Slot<any>

/** What stands in a slot. */
export type SlotValue<S> = S extends Slot<infer T> ? T : never

/** All slots of the process, whichever copy of this file declared them. */
const registry = Symbol.for('sluice.slots')
const slots = ((globalThis as { [registry]?: Map<string, AnySlot> })[registry] ??= new Map())

/**
 * Declares a slot, at module load: `slot('caller').of<Caller>()`. One name is one slot, wherever and however often it
 * is declared: what a plugin alone uses begins with the plugin's name, as in `quota/reservation`.
 */
export function slot<const Name extends string>(name: Name): { of<T>(): Slot<T, Name> } {
  let made = slots.get(name) as Slot<never, Name> | undefined
  if (!made) slots.set(name, (made = { name, index: slots.size }))
  return { of: () => made }
}

/** Who is asking: filled by `auth` before the body is read. */
export const caller = slot('caller').of<Caller>()

/** What the exchange consumed: filled by `usage-meter` when the upstream's answer ends, also when it is cut short. */
export const usage = slot('usage').of<MeteredUsage>()

/**
 * Usage with its origin: `upstream` is the provider's own final count, `measured` what we counted ourselves in request
 * and answer, the others are labelled estimates.
 */
export interface MeteredUsage {
  usage: Usage
  source: 'upstream' | 'measured' | 'partial' | 'estimated'
}

/**
 * Members of the request that were left out on the way to an attempt's channel, by attempt: filled by
 * `protocol-translate` when it translates.
 */
export const dropped = slot('dropped').of<ReadonlyMap<object, readonly string[]>>()

/** What the customer was charged: filled by `quota` when it settles; absent when nothing was reserved. */
export const charge = slot('charge').of<Charge>()

/** What the exchange holds of its budgets: filled by `quota` when it reserves; absent when it holds nothing. */
export const reservation = slot('reservation').of<Reservation>()

/** What a model reads beside the body of the request, as it goes on with something that is kept: filled by the core. */
export const recalledInput = slot('recalled-input').of<RecalledInput>()

/** Bytes, which no count of tokens exceeds, and tokens as far as they are known. */
export interface RecalledInput {
  readonly bytes: number
  readonly tokens: number
}

/** Work that goes on after the exchange: its hold and its record are whoever's who ends it. */
export interface GoingOn {
  /** Takes the record of the exchange, which is written when the work has ended, with what it cost then. */
  keep(record: RequestRecord): void
}

/**
 * Filled by the core when the exchange has begun work that goes on after it: its hold is not to be ended, nor its
 * record written.
 */
export const goingOn = slot('going-on').of<GoingOn>()

/**
 * Says what the attempts before the present one have cost, undefined when there were none, for work that goes on: it
 * goes into the journal with the end of its hold. Filled by `quota`.
 */
export const spent = slot('spent').of<() => readonly AttemptCost[] | undefined>()

/** What went into a request. */
export interface Prompt {
  /** By estimate, in the unit that the model is priced by. */
  readonly usage: Readonly<Usage>
  /** It is due of work that is called off, where nobody says what that came to. */
  readonly due: boolean
}

/** Says what went in, for work that goes on. Filled by `quota`. */
export const prompt = slot('prompt').of<() => Prompt>()

/**
 * Filled by the core when the client has had its answer, and the exchange goes on without it: nobody sees what is
 * answered from then on.
 */
export const answered = slot('answered').of<true>()

/** A settled charge with its arithmetic. */
export interface Charge {
  amount: bigint
  /** The reservation it replaced. */
  reserved: bigint
  priceVersion: string
  /** What the amount is the price of: the exchange's usage, unless that could not be true. */
  usage: Usage
  source: MeteredUsage['source'] | 'recovered' | 'manual'
}

/** The public name of the model that an answer is of, where the request does not name one: filled by operations. */
export const shownModel = slot('model/shown').of<string>()
