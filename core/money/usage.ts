// One disjoint account of what an exchange consumed, whatever the protocol reported.
import { answerClasses, limitedClasses, promptClasses } from './classes.ts'
import type { PricedClass } from './classes.ts'

/**
 * Units by class ({@link priceClasses}). Classes are disjoint: a unit is in exactly one of them, so that Σ class ×
 * price is the cost. `reasoning` is the exception: it says how much of `output` was reasoning and is not priced by
 * itself. All are non-negative safe integers; absent means zero.
 */
export interface Usage extends Partial<Record<PricedClass, number>> {
  input: number
  cached_input: number
  cache_write: number
  output: number
  reasoning: number
}

/** Units of a request that are known before it is answered and are no tokens, such as characters or pictures. */
export type Pieces = Readonly<Partial<Record<PricedClass, number>>>

/** No consumption; callers copy it. */
export const noUsage: Readonly<Usage> = { input: 0, cached_input: 0, cache_write: 0, output: 0, reasoning: 0 }

/** Both together, class by class. */
export function sumOf(one: Readonly<Usage>, other: Readonly<Usage>): Usage {
  const sum: Usage = { ...one }
  for (const [name, units] of Object.entries(other) as [keyof Usage, number][]) sum[name] = (sum[name] ?? 0) + units
  return sum
}

/** Tokens of the whole prompt, whatever they cost. */
export function promptTokens(usage: Readonly<Usage>): number {
  return unitsIn(usage, promptClasses)
}

/** Tokens of the whole output, whatever they are of. */
export function completionTokens(usage: Readonly<Usage>): number {
  return unitsIn(usage, answerClasses)
}

/** Tokens as limits count them: those that a cache spared are not among them, as at most upstreams. */
export function limitedTokens(usage: Readonly<Usage>): number {
  return unitsIn(usage, limitedClasses)
}

/** A usage has few classes of the many that there are. */
function unitsIn(usage: Readonly<Usage>, classes: ReadonlySet<string>): number {
  let sum = 0
  for (const name in usage) if (classes.has(name)) sum += usage[name as keyof Usage] ?? 0
  return sum
}

/** Of a usage: those classes that are always there. */
const commonClasses = Object.keys(noUsage).length

/** A usage as JSON: what JSON.stringify makes of it, 0.4 µs sooner. Counts must be finite. */
export function renderUsage(usage: Readonly<Usage>): string {
  if (Object.keys(usage).length > commonClasses) return JSON.stringify(usage)
  const { input, cached_input, cache_write, output, reasoning } = usage
  return `{"input":${input},"cached_input":${cached_input},"cache_write":${cache_write},"output":${output},"reasoning":${reasoning}}`
}

/** The pieces that JSON.stringify rendered; none for null. */
export function parsePieces(json: string | null): Pieces {
  return json === null ? {} : (JSON.parse(json) as Pieces)
}
