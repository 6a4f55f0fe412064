// Token classes: one disjoint account of what an exchange consumed, whatever the protocol reported.

/**
 * Disjoint classes: a unit is in exactly one of them, so that Σ class × price is the cost. `reasoning` is the
 * exception: it says how much of `output` was reasoning and is not priced by itself. Units are tokens; `character`
 * counts characters to be spoken, `image` pictures made, `request` calls, `search` search units of rerankings, `second`
 * seconds of media begun, `tool_call` calls of the upstream's own tools. All are non-negative safe integers; absent
 * means zero.
 */
export interface Usage {
  input: number
  cached_input: number
  cache_write: number
  /** Written to be kept for longer than a cache usually keeps. */
  cache_write_long?: number
  output: number
  reasoning: number
  audio_input?: number
  audio_output?: number
  image_input?: number
  image_output?: number
  character?: number
  image?: number
  request?: number
  search?: number
  second?: number
  tool_call?: number
}

/** The classes that carry a price, in the order they are shown. */
export const pricedClasses = [
  'input',
  'cached_input',
  'cache_write',
  'cache_write_long',
  'output',
  'audio_input',
  'audio_output',
  'image_input',
  'image_output',
  'character',
  'image',
  'request',
  'search',
  'second',
  'tool_call'
] as const

/** A class with a price of its own. */
export type PricedClass = (typeof pricedClasses)[number]

/** No consumption; callers copy it. */
export const noUsage: Readonly<Usage> = { input: 0, cached_input: 0, cache_write: 0, output: 0, reasoning: 0 }

/** Both together, class by class. */
export function sumOf(one: Readonly<Usage>, other: Readonly<Usage>): Usage {
  const sum: Usage = { ...one }
  for (const [name, units] of Object.entries(other) as [keyof Usage, number][]) sum[name] = (sum[name] ?? 0) + units
  return sum
}

/** The classes that tokens of the prompt fall into. */
export const promptClasses = [
  'input',
  'cached_input',
  'cache_write',
  'cache_write_long',
  'audio_input',
  'image_input'
] as const satisfies readonly PricedClass[]

/** Tokens of the whole prompt, whatever they cost. */
export function promptTokens(usage: Readonly<Usage>): number {
  let sum = 0
  for (const name of promptClasses) sum += usage[name] ?? 0
  return sum
}

/** Tokens of the whole output, whatever they are of. */
export function completionTokens({ output, audio_output = 0, image_output = 0 }: Readonly<Usage>): number {
  return output + audio_output + image_output
}

/** Of a usage: those classes that are always there. */
const commonClasses = Object.keys(noUsage).length

/** A usage as JSON: what JSON.stringify makes of it, 0.4 µs sooner. Counts must be finite. */
export function renderUsage(usage: Readonly<Usage>): string {
  if (Object.keys(usage).length > commonClasses) return JSON.stringify(usage)
  const { input, cached_input, cache_write, output, reasoning } = usage
  return `{"input":${input},"cached_input":${cached_input},"cache_write":${cache_write},"output":${output},"reasoning":${reasoning}}`
}
