// What the state of sets of limits means for a request: which limit refuses it, and what is shown of all.
import type { Rates } from '../../catalogue/caller.ts'
import type { CountedSet, Decision, LimitName, LimitState } from '../limits.ts'
import type { Bucket } from './bucket.ts'

/** The wait that is told when all concurrency slots are taken: nobody knows when an exchange will end. */
const slotRetryMs = 1000

/** What is taken of one set. A bucket is there where the set limits that rate, and is at the time of the decision. */
export interface Fill {
  /** How many concurrency slots are taken. */
  readonly leases: number
  readonly rps: Bucket | undefined
  readonly rpm: Bucket | undefined
  readonly tpm: Bucket | undefined
}

/** The limit that takes longest to admit a request, while it is looked for. */
export interface Longest<S> {
  set: S
  name: LimitName
  asked: number
  /** Microseconds. */
  wait: number
}

/**
 * A request for more tokens than the whole limit could never be admitted. Its excess is counted when the used tokens
 * are known.
 */
export function tokensOf({ tpm }: Rates, tokens: number): number {
  return tpm === undefined ? 0 : Math.min(tokens, tpm)
}

/** The limit with the longest wait, as the client has to wait that long in any case; undefined when all admit it. */
export function longestOf<S extends CountedSet>(
  sets: readonly S[],
  fills: readonly Fill[],
  tokens: number,
  within: boolean
): Longest<S> | undefined {
  let longest: Longest<S> | undefined
  for (let at = 0; at < sets.length; at++) {
    const set = sets[at]!
    const { rps, rpm, tpm, concurrency } = set.rates
    const fill = fills[at]!
    const full = !within && concurrency !== undefined && fill.leases >= concurrency
    if (full) longest = longer(longest, set, 'concurrency', 1, slotRetryMs * 1000)
    if (rps !== undefined) longest = longer(longest, set, 'rps', 1, fill.rps!.wait(1))
    if (rpm !== undefined) longest = longer(longest, set, 'rpm', 1, fill.rpm!.wait(1))
    // A request without tokens, such as a list of models, neither waits for the token limit nor counts in it.
    const asked = tokensOf(set.rates, tokens)
    if (tpm !== undefined && tokens > 0) longest = longer(longest, set, 'tpm', asked, fill.tpm!.wait(asked))
  }
  return longest
}

function longer<S>(
  longest: Longest<S> | undefined,
  set: S,
  name: LimitName,
  asked: number,
  wait: number
): Longest<S> | undefined {
  return wait > (longest?.wait ?? 0) ? { set, name, asked, wait } : longest
}

/** The decision that `longest` makes. */
export function refusal<S extends CountedSet>(
  states: readonly LimitState<S>[],
  { set, name, asked, wait }: Longest<S>
): Decision<S> {
  const refusedBy = states.find((state) => state.set === set && state.name === name)!
  return { admitted: false, states, refusedBy, asked, retryAfterMs: Math.ceil(wait / 1000) }
}

/** The states of all limits that are asked, as a decision shows them. */
export function statesOf<S extends CountedSet>(
  sets: readonly S[],
  fills: readonly Fill[],
  tokens: number,
  within: boolean
): LimitState<S>[] {
  const states: LimitState<S>[] = []
  for (let at = 0; at < sets.length; at++) {
    const set = sets[at]!
    const { rps, rpm, tpm, concurrency } = set.rates
    const fill = fills[at]!
    if (!within && concurrency !== undefined) {
      const remaining = Math.max(0, concurrency - fill.leases)
      states.push({ set, name: 'concurrency', limit: concurrency, remaining, resetMs: slotRetryMs })
    }
    if (rps !== undefined) states.push(fill.rps!.state(set, 'rps'))
    if (rpm !== undefined) states.push(fill.rpm!.state(set, 'rpm'))
    if (tpm !== undefined && tokens > 0) states.push(fill.tpm!.state(set, 'tpm'))
  }
  return states
}
