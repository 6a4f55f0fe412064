// Typed places on an exchange: what one plugin fills and others read.
import type { Usage } from '../money/usage.ts'
import type { Caller } from '../catalogue/caller.ts'
import type { AttemptCost, Reservation } from '../store/ledger.ts'
import type { GatewayError } from '../errors.ts'
import type { Quote } from './rehearsal.ts'
import type { RequestRecord } from '../store/requests.ts'

/** A typed key. `index` is its place in the exchange's array, so a read costs an array load. */
export interface Slot<T, Name extends string = string> {
  readonly name: Name
  readonly index: number
  /** Phantom: carries the type only. */
  readonly type?: T
}

/** A slot of any type. */
export type AnySlot = Slot<any>

/** The type of the value in a slot. */
export type SlotValue<S> = S extends Slot<infer T> ? T : never

/** All slots of the process. Several copies of this file share them. */
const registry = Symbol.for('sluice.slots')
const slots = ((globalThis as { [registry]?: Map<string, AnySlot> })[registry] ??= new Map())

/**
 * Declares a slot; call it when a module loads: `slot('caller').of<Caller>()`. Declaring a name again gives the same
 * slot, so the name of a plugin's private slot begins with the plugin's name, as in `quota/reservation`.
 */
export function slot<const Name extends string>(name: Name): { of<T>(): Slot<T, Name> } {
  let made = slots.get(name) as Slot<never, Name> | undefined
  if (!made) slots.set(name, (made = { name, index: slots.size }))
  return { of: () => made }
}

/** How many slots there are so far. */
export function slotCount(): number {
  return slots.size
}

/**
 * Of the models that may answer for an exchange: those that it cannot be charged by, and why. They are not asked.
 * Filled by `quota`; absent where there are none.
 */
export const refusedModels = slot('models/refused').of<ReadonlyMap<string, GatewayError>>()

/** The caller of the exchange. Filled by `auth` before the body is read. */
export const caller = slot('caller').of<Caller>()

/** What the exchange consumed: filled by `usage-meter` when the upstream's answer ends, also when it is cut short. */
export const usage = slot('usage').of<MeteredUsage>()

/**
 * Usage with its origin: `upstream` is the provider's own final count, `measured` is what the gateway counted in
 * request and answer, and the others are estimates.
 */
export interface MeteredUsage {
  usage: Usage
  source: 'upstream' | 'measured' | 'partial' | 'estimated'
}

/** For each attempt, the members of the request that the translation left out. Filled by `protocol-translate`. */
export const dropped = slot('dropped').of<ReadonlyMap<object, readonly string[]>>()

/** What the customer was charged: filled by `quota` when it settles; absent when nothing was reserved. */
export const charge = slot('charge').of<Charge>()

/** The hold of the exchange. Filled by `quota` when it reserves; absent when the exchange has no hold. */
export const reservation = slot('reservation').of<Reservation>()

/** What would be held. Filled by `quota` for a request that is only explained. */
export const quote = slot('quote').of<Quote>()

/**
 * What the model reads in addition to the body because the request continues a stored conversation. Filled by the core.
 */
export const recalledInput = slot('recalled-input').of<RecalledInput>()

/** Its size in bytes, which is never less than its tokens, and the tokens that are known. */
export interface RecalledInput {
  readonly bytes: number
  readonly tokens: number
}

/**
 * Work that goes on after the exchange. Its hold and its record are completed when it ends, and not by the exchange.
 */
export interface GoingOn {
  /** Takes the record of the exchange, which is written when the work has ended, with the final cost. */
  keep(record: RequestRecord): void
}

/**
 * Filled by the core when the exchange has begun work that goes on after it. The hold must then not be ended, nor the
 * record written, with the exchange.
 */
export const goingOn = slot('going-on').of<GoingOn>()

/**
 * Gives the cost of the attempts before the present one; undefined when there were none. For work that goes on, this is
 * written to the journal with the end of the hold. Filled by `quota`.
 */
export const spent = slot('spent').of<() => readonly AttemptCost[] | undefined>()

/** The estimated input of a request. */
export interface Prompt {
  /** The estimate, in the unit that the model is priced by. */
  readonly usage: Readonly<Usage>
  /** Whether the input is charged when the work is cancelled and the upstream reports no usage. */
  readonly due: boolean
}

/** Gives the input of the request, for work that goes on. Filled by `quota`. */
export const prompt = slot('prompt').of<() => Prompt>()

/**
 * Filled by the core when the client has had its answer and the exchange goes on without it. No client sees the rest.
 */
export const answered = slot('answered').of<true>()

/** A settled charge with its arithmetic. */
export interface Charge {
  amount: bigint
  /** The hold that the charge replaced. */
  reserved: bigint
  priceVersion: string
  /** The usage that the amount pays for: that of the exchange, unless it was implausible. */
  usage: Usage
  source: MeteredUsage['source'] | 'recovered' | 'manual'
}

/** Of a session: the first of its turns that was refused. Filled by the core. */
export const refusedTurn = slot('turn/refused').of<GatewayError>()

/** The public name of the model of an answer when the request names none. Filled by operations. */
export const shownModel = slot('model/shown').of<string>()
