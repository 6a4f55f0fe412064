// What requests add up to: how many, errors, tokens, what was charged, and how soon answers began.
import type { RecordGist } from './requests.ts'
import { Spread } from './spread.ts'

const day = 86_400_000

/** The spans that traffic is summed by, in milliseconds. */
export const trafficSpans = { minute: 60_000, hour: 3_600_000 } as const

/** The name of a span. */
export type TrafficSpan = keyof typeof trafficSpans

/** How long traffic is kept, in milliseconds. */
export const trafficKept: Readonly<Record<TrafficSpan, number>> = { minute: 2 * day, hour: 400 * day }

/** What a request that has ended adds to traffic. */
export interface Passed {
  /** The code of its error; empty for none. */
  readonly code: string
  /** The channel of the last attempt; empty for none. */
  readonly channel: string
  /** Tokens, cached ones included. */
  readonly input: number
  readonly output: number
  /** What was charged, in nano-dollars. */
  readonly cost: bigint
  /** Milliseconds to the first event or byte of the answer; null when there was none. */
  readonly first: number | null
}

/** Reads what a record adds. */
export function passedOf({ error_code, channel, usage, cost_nano, first_byte_ms, outcome }: RecordGist): Passed {
  return {
    code: error_code ?? '',
    channel: channel ?? '',
    input: usage ? usage.input + usage.cached_input + usage.cache_write : 0,
    output: usage?.output ?? 0,
    cost: BigInt(cost_nano),
    // How soon the gateway itself refuses says nothing of answers.
    first: outcome === 'rejected' ? null : first_byte_ms
  }
}

/** Where a request is counted. What there is not is empty. */
export interface TrafficPlace {
  readonly tenant: string
  readonly model: string
  readonly channel: string
}

/** Where a request is counted. Its model is, where it got so far that it is of the catalogue: clients send anything. */
export function placeOf(tenant: string | null, model: string | null, { channel, code }: Passed): TrafficPlace {
  const known = channel !== '' || code === 'no_available_channel' || /^(?:quota|rate_limit)_/.test(code)
  return { tenant: tenant ?? '', model: known ? (model ?? '') : '', channel }
}

/** The rows that what is counted at a place adds to: each has a scope, and the models and channels within that. */
export function cellsOf({ tenant, model, channel }: TrafficPlace): (readonly [string, string, string])[] {
  const cells: (readonly [string, string, string])[] = [['', '', '']]
  if (tenant !== '') cells.push([`tenant:${tenant}`, model, channel])
  if (model !== '') cells.push([`model:${model}`, '', channel])
  if (channel !== '') cells.push([`channel:${channel}`, '', ''])
  return cells
}

/** Sums as they are stored: `codes` is JSON, or empty for none; `cost` decimal text; `first` as {@link Spread.text}. */
export interface StoredTraffic {
  readonly requests: number
  readonly codes: string
  readonly input: number
  readonly output: number
  readonly cost: string
  readonly first: string
}

/** The sums of some requests. */
export class Traffic {
  /** Reads sums. */
  static of({ requests, codes, input, output, cost, first }: StoredTraffic): Traffic {
    const traffic = new Traffic()
    traffic.requests = requests
    if (codes !== '')
      for (const [code, count] of Object.entries(JSON.parse(codes) as Record<string, number>)) traffic.#err(code, count)
    traffic.input = input
    traffic.output = output
    traffic.cost = BigInt(cost)
    traffic.first.join(Spread.read(first))
    return traffic
  }

  requests = 0
  /** How many ended with an error, by its code. */
  readonly codes = new Map<string, number>()
  input = 0
  output = 0
  cost = 0n
  readonly first = new Spread()

  add({ code, input, output, cost, first }: Passed): void {
    this.requests++
    if (code !== '') this.#err(code, 1)
    this.input += input
    this.output += output
    this.cost += cost
    if (first !== null) this.first.add(first)
  }

  /** Takes a request away. */
  remove({ code, input, output, cost, first }: Passed): void {
    this.requests--
    if (code !== '') this.#err(code, -1)
    this.input -= input
    this.output -= output
    this.cost -= cost
    if (first !== null) this.first.remove(first)
  }

  /** Adds other sums. */
  join(other: Traffic): void {
    this.requests += other.requests
    for (const [code, count] of other.codes) this.#err(code, count)
    this.input += other.input
    this.output += other.output
    this.cost += other.cost
    this.first.join(other.first)
  }

  /** The sums as they are stored. */
  get stored(): StoredTraffic {
    return {
      requests: this.requests,
      codes: this.codes.size === 0 ? '' : JSON.stringify(Object.fromEntries(this.codes)),
      input: this.input,
      output: this.output,
      cost: String(this.cost),
      first: this.first.text
    }
  }

  /** How many ended with an error. */
  get errors(): number {
    let sum = 0
    for (const count of this.codes.values()) sum += count
    return sum
  }

  #err(code: string, count: number): void {
    const sum = (this.codes.get(code) ?? 0) + count
    if (sum === 0) this.codes.delete(code)
    else this.codes.set(code, sum)
  }
}

/** What is asked of traffic. Without a tenant it is that of all. */
export interface TrafficQuery {
  readonly tenant?: string | undefined
  readonly model?: string | undefined
  readonly channel?: string | undefined
  readonly span: TrafficSpan
  /** In spans since 1970: the first one, the one after the last, and how many make one point. */
  readonly from: number
  readonly to: number
  readonly every: number
}

/** The rows that a query adds up: those of a scope, with these values. */
export function rowsFor({ tenant, model, channel }: TrafficQuery): { scope: string; named: [string, string][] } {
  const [scope, inner] =
    tenant !== undefined
      ? [`tenant:${tenant}`, { model, channel }]
      : model !== undefined
        ? [`model:${model}`, { channel }]
        : channel !== undefined
          ? [`channel:${channel}`, {}]
          : ['', {}]
  return { scope, named: Object.entries(inner).filter((pair): pair is [string, string] => pair[1] !== undefined) }
}

/** Adds rows up to points. They come in the order of their `time`, which is in spans since 1970. */
export function pointsOf(
  rows: Iterable<StoredTraffic & { readonly time: number }>,
  { from, every }: Pick<TrafficQuery, 'from' | 'every'>
): TrafficPoint[] {
  const points: { number: number; traffic: Traffic }[] = []
  for (const row of rows) {
    const number = Math.floor((row.time - from) / every)
    if (points.at(-1)?.number !== number) points.push({ number, traffic: new Traffic() })
    points.at(-1)!.traffic.join(Traffic.of(row))
  }
  return points.map(({ number, traffic }) => ({ number, sums: traffic.stored }))
}

/** A point: its number, from 0 on, and its sums. Those without a request are left out. */
export interface TrafficPoint {
  readonly number: number
  readonly sums: StoredTraffic
}
