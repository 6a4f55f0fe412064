// Computes the charge for a stored usage at a stored price. `verify` checks the results of costOf with it, so it
// deliberately shares no code with costOf.
import type { Value } from '../files/sqlite.ts'

/** The rates for prompts of more than `above` tokens. */
interface Tier {
  above: bigint
  rates: Map<string, bigint>
}

/** A stored price: its tiers, the one for the shortest prompts first. */
export type StoredPrice = readonly Tier[]

const ofPrompt: ReadonlySet<string> = new Set([
  'input',
  'cached_input',
  'cache_write',
  'cache_write_long',
  'audio_input',
  'image_input'
])

/** Reads the JSON of a price. A rate that is not a whole number is skipped. */
export function readPrice(json: Value | undefined): StoredPrice {
  const price = readObject(json) ?? {}
  const longer = (Array.isArray(price['tiers']) ? price['tiers'] : []).flatMap((tier: unknown) => {
    const rates = ratesOf(Object(tier))
    const above = rates.get('above')
    return above === undefined ? [] : [{ above, rates }]
  })
  return [{ above: -1n, rates: ratesOf(price) }, ...longer]
}

/** The charge in nano-dollars; for an invalid usage, a text that says what is wrong with it. */
export function dueFor(json: Value | undefined, price: StoredPrice): bigint | string {
  const usage = readObject(json)
  if (!usage) return 'has no usage'
  for (const [units, count] of Object.entries(usage)) {
    if (!Number.isSafeInteger(count) || (count as number) < 0) return `counts ${count} ${units}`
  }
  // The tier with the largest bound below the prompt's length applies. The sum is rounded to a whole nano-dollar,
  // halves up.
  const counts = Object.entries(usage as Record<string, number>).map(
    ([units, count]) => [units, BigInt(count)] as const
  )
  const length = counts.reduce((sum, [units, count]) => (ofPrompt.has(units) ? sum + count : sum), 0n)
  const rates = price.findLast(({ above }) => length > above)?.rates
  const millionths = counts.reduce((sum, [units, count]) => sum + count * (rates?.get(units) ?? 0n), 0n)
  return (2n * millionths + 1_000_000n) / 2_000_000n
}

/** What was read last: the checks of a row ask for its usage one after the other. */
let last:
  | { readonly json: Value | undefined; readonly object: Readonly<Record<string, unknown>> | undefined }
  | undefined

/** The object in a JSON column; undefined when the column holds something else. */
export function readObject(json: Value | undefined): Readonly<Record<string, unknown>> | undefined {
  if (last?.json !== json || !last) last = { json, object: parsed(json) }
  return last.object
}

function parsed(json: Value | undefined): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(String(json))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function ratesOf(rates: object): Map<string, bigint> {
  const sound = Object.entries(rates).filter(([, rate]) => /^\d+$/.test(String(rate)))
  return new Map(sound.map(([name, rate]) => [name, BigInt(String(rate))]))
}
