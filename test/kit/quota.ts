// What the parts of the plugin quota are tried with: prices, holds, and an exchange with what they ask of it.
import { Attempt } from '../../core/contract/attempt.ts'
import { RequestBody } from '../../core/bodies/body.ts'
import { noUsage } from '../../core/contract/contract.ts'
import type { Model, GatewayError } from '../../core/contract/contract.ts'
import type { Metering } from '../../core/contract/operation.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import type { Price } from '../../core/money/price.ts'
import type { Usage } from '../../core/money/usage.ts'
import { turnBound } from '../../plugins/quota/bound.ts'
import type { Hold, Stake } from '../../plugins/quota/settle.ts'
import { termsOf } from '../../plugins/quota/terms.ts'
import type { Terms, Units } from '../../plugins/quota/terms.ts'
import type { TestLedger } from './ledger.ts'

/** A nano-dollar for each unit. */
export const one = 1_000_000n

export function priceOf(perMillion: Price['perMillion'], more: Partial<Price> = {}): Price {
  return { version: 'v', perMillion, ...more }
}

export function termsAt(price: Price, more: Partial<Model> = {}): Terms {
  return termsOf({ prices: [{ from: -Infinity, price }], ...more } as Model)[0]!
}

export function bodyOf(value: object): RequestBody {
  return RequestBody.json(Buffer.from(JSON.stringify(value)))
}

export function unitsOf(more: Partial<Units>): Units {
  return { prompt: 0, answer: 0, characters: 0, pictures: 0, call: 0, searches: 0, seconds: 0, tools: 0, ...more }
}

/** An exchange with what these parts ask of it, and what they did to it. */
export class Running {
  readonly id = 'r1'
  readonly model = 'demo'
  readonly receivedAt = 1_790_000_000_000
  readonly streaming = false
  readonly attempts: object[]
  readonly body: RequestBody
  readonly request: object
  readonly errors: string[] = []
  readonly ends: ((outcome?: object) => unknown)[] = []
  readonly waits: (() => unknown)[] = []
  readonly #slots = new Map<unknown, unknown>()

  constructor(
    attempts: object[] = [],
    metering: Partial<Metering> = { characters: 'input' },
    body: object = { input: 'four' }
  ) {
    this.attempts = attempts
    this.body = bodyOf(body)
    this.request = {
      operation: { name: 'speech', protocol: 'openai-speech', metering: { outputLimits: [], ...metering } }
    }
  }

  get log(): object {
    return { error: (message: string) => void this.errors.push(message) }
  }

  find(slot: unknown): any {
    return this.#slots.get(slot)
  }

  get(slot: unknown): any {
    return this.#slots.get(slot)
  }

  set(slot: unknown, value: unknown): void {
    this.#slots.set(slot, value)
  }

  defer(end: (outcome?: object) => unknown): void {
    this.ends.push(end)
  }

  showAfter(wait: () => unknown): void {
    this.waits.push(wait)
  }
}

export interface Attempted {
  dispatched?: boolean
  channel?: string
  usage?: MeteredUsage | undefined
  error?: GatewayError | undefined
  status?: number | undefined
}

export function attemptOf({ dispatched = true, channel = 'a', usage, error, status }: Attempted, number = 1): object {
  const facts = { number, dispatched, channel: { name: channel }, usage, error, status }
  return Object.assign(Object.create(Attempt.prototype) as object, facts)
}

export const speech = priceOf({ character: one, output: one, input: one })

/** A hold for one model, at a price and with costs. */
export function holdAt(ledger: TestLedger, more: Partial<Pick<Stake, 'price' | 'costs'> & Hold> = {}): Hold {
  const { price = speech, costs, abandoned = 'prompt' } = more
  const estimate = { input: 5, maxOutput: 2 }
  const scope = { kind: 'key', id: 'key:k', budgets: [] } as const
  const request = { requestId: 'r1', scopes: [scope], amount: 100n, model: 'demo', price, estimate, time: 0 }
  const bound = turnBound(termsAt(price), 1, undefined, 1)
  const stake: Stake = { model: 'demo', price, costs, estimate, bound, limit: undefined }
  return { reservation: ledger.reserve(request), stakes: [stake], stake, abandoned }
}

export const counted: Usage = { ...noUsage, input: 30, output: 12 }

export const perToken = priceOf({ input: one, output: 2n * one })

/** A turn, with what was asked of it. */
export class Turning {
  readonly part: string
  readonly asked: boolean = true
  readonly input = { worst: 50, typical: 20 }
  readonly maxOutput = 5
  readonly output: number = 3
  readonly abandoned: boolean = false
  usage: MeteredUsage | undefined
  readonly ends: (() => Promise<void>)[] = []
  readonly waits: unknown[] = []
  told: (output: number) => void = () => {}

  constructor(part: string, more: Partial<Turning> = {}) {
    this.part = part
    Object.assign(this, more)
  }

  showAfter(wait: unknown): void {
    this.waits.push(wait)
  }

  follow(told: (output: number) => void): void {
    this.told = told
  }

  defer(end: () => Promise<void>): void {
    this.ends.push(end)
  }

  async end(usage?: MeteredUsage): Promise<void> {
    this.usage = usage
    for (const end of this.ends) await end()
  }
}

/** What an upstream counted of so many tokens. */
export const used = (input: number, output: number, source: MeteredUsage['source'] = 'upstream'): MeteredUsage => ({
  usage: { ...noUsage, input, output },
  source
})
