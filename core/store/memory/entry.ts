// The state of one set of limits, and what requests have taken of it.
import type { Rates } from '../../catalogue/caller.ts'
import { Bucket, minute, second } from './bucket.ts'
import type { Fill } from './verdict.ts'
import { tokensOf } from './verdict.ts'

/** The state of one set. Times are in microseconds. */
export class Entry implements Fill {
  readonly id: string
  rps: Bucket | undefined
  rpm: Bucket | undefined
  tpm: Bucket | undefined
  /** How many concurrency slots are taken. */
  leases = 0
  /** How many leases have tokens of it that are still to be corrected. */
  uncorrected = 0

  constructor(id: string) {
    this.id = id
  }

  /** Whether the state is the same as that of a set which was never seen. */
  idle(now: number): boolean {
    return (
      this.leases === 0 &&
      this.uncorrected === 0 &&
      empty(this.rps, now) &&
      empty(this.rpm, now) &&
      empty(this.tpm, now)
    )
  }

  /** Brings the buckets of the rates to `now`. */
  turn({ rps, rpm, tpm }: Rates, now: number): void {
    if (rps !== undefined) (this.rps ??= new Bucket(second, rps, now)).turn(now, rps)
    if (rpm !== undefined) (this.rpm ??= new Bucket(minute, rpm, now)).turn(now, rpm)
    if (tpm !== undefined) (this.tpm ??= new Bucket(minute, tpm, now)).turn(now, tpm)
  }
}

/** What a request has taken of one set. */
export interface Taken {
  readonly entry: Entry
  /** Whether it has a slot. */
  readonly slot: boolean
  readonly tokens: number
  /** What the bucket of tokens held then. */
  readonly level: number
}

/** Takes what a request asks for; with `slot` a concurrency slot too. The entry was turned to the same rates. */
export function take(entry: Entry, rates: Rates, asked: number, slot: boolean): Taken {
  const tokens = tokensOf(rates, asked)
  if (rates.rps !== undefined) entry.rps!.take(1)
  if (rates.rpm !== undefined) entry.rpm!.take(1)
  if (tokens > 0) {
    entry.tpm!.take(tokens)
    entry.uncorrected++
  }
  if (slot) entry.leases++
  return { entry, slot, tokens, level: entry.tpm?.content ?? 0 }
}

/** Gives back what a request has taken at `at`, and corrects its tokens; undefined keeps those that it expected. */
export function giveBack(
  { entry, slot, tokens, level }: Taken,
  used: number | undefined,
  at: number,
  now: number
): void {
  if (slot) entry.leases--
  if (tokens === 0) return
  entry.uncorrected--
  if (used === undefined || used === tokens) return
  entry.tpm!.leak(now)
  entry.tpm!.correct(tokens, used, level, now - at)
}

function empty(bucket: Bucket | undefined, now: number): boolean {
  bucket?.leak(now)
  return !bucket?.content
}
