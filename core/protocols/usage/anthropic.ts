// Reads and writes usage in the form of Anthropic's Messages, and merges it over a stream.
import { completionTokens } from '../../money/usage.ts'
import type { Usage } from '../../money/usage.ts'
import { asObject, asObjects } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { account, Counts, plus } from './account.ts'

/**
 * Reads the usage of a message. `input_tokens` is neither read from a cache nor written to one, so the prompt is the
 * sum of the three. The counts at the top lack `iterations` that compacted the conversation, so these are added. Of the
 * upstream's own tools only searches have a fee.
 */
export function readAnthropicUsage(value: unknown): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const counts = new Counts()
  const sum = amounts(counts, usage)
  for (const { type, ...iteration } of asObjects(usage['iterations'])) {
    if (type !== 'compaction') continue
    const more = amounts(counts, iteration)
    sum.input = plus(sum.input, more.input)
    sum.cached += more.cached
    sum.written += more.written
    sum.long += more.long
    sum.output = plus(sum.output, more.output)
  }
  const { input, cached, written, long, output } = sum
  const reasoning = counts.of(asObject(usage['output_tokens_details'])?.['thinking_tokens'])
  const searches = counts.of(asObject(usage['server_tool_use'])?.['web_search_requests'])
  const prompt = input === undefined ? undefined : input + cached + written
  const read = account(counts, { prompt, cached, written, writtenLong: long, completion: output, reasoning })
  return read && read !== 'insane' && searches ? { ...read, web_search: searches } : read
}

interface Amounts {
  input: number | undefined
  cached: number
  written: number
  /** Of `written`: kept for an hour. */
  long: number
  output: number | undefined
}

function amounts(counts: Counts, usage: JsonObject): Amounts {
  const split = asObject(usage['cache_creation']) ?? {}
  const long = counts.of(split['ephemeral_1h_input_tokens']) ?? 0
  const parts = plus(long, counts.of(split['ephemeral_5m_input_tokens'])) ?? 0
  // A sum of zero is ignored when there are parts: it was just not filled in.
  const written = counts.of(usage['cache_creation_input_tokens']) || parts
  if (parts > written) counts.insane = true
  return {
    input: counts.of(usage['input_tokens']),
    cached: counts.of(usage['cache_read_input_tokens']) ?? 0,
    written,
    long,
    output: counts.of(usage['output_tokens'])
  }
}

const merged = [
  'input_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
  'output_tokens',
  'iterations'
] as const
const mergedInside = {
  cache_creation: ['ephemeral_5m_input_tokens', 'ephemeral_1h_input_tokens'],
  output_tokens_details: ['thinking_tokens'],
  server_tool_use: ['web_search_requests']
} as const

/**
 * Merges the usage of a stream. `before`: what was merged so far, or undefined. `next`: the usage of the next
 * `message_start` or `message_delta`. Counts are cumulative and never added up: the later one counts, unless it is
 * missing, null, or a zero after another count, which some relays send for unknown counts. Only members that {@link
 * readAnthropicUsage} reads are kept.
 */
export function mergeAnthropicUsage(before: unknown, next: unknown): unknown {
  const [old, more] = [asObject(before), asObject(next)]
  if (!more) return before
  const made: Record<string, unknown> = merge(merged, old, more)
  for (const [name, members] of Object.entries(mergedInside)) {
    const [oldInside, moreInside] = [asObject(old?.[name]), asObject(more[name])]
    if (oldInside ?? moreInside) made[name] = merge(members, oldInside, moreInside)
  }
  return made
}

function merge(
  names: readonly string[],
  before: JsonObject | undefined,
  next: JsonObject | undefined
): Record<string, unknown> {
  const made: Record<string, unknown> = {}
  for (const name of names) {
    const [old, more] = [before?.[name] ?? undefined, next?.[name] ?? undefined]
    const value = more === undefined || (more === 0 && old !== undefined) ? old : more
    if (value !== undefined) made[name] = value
  }
  return made
}

/**
 * Writes usage so that {@link readAnthropicUsage} reads the same, except for the media of tokens, which this protocol
 * does not have.
 */
export function writeAnthropicUsage(usage: Readonly<Usage>): JsonObject {
  const {
    input,
    audio_input = 0,
    image_input = 0,
    cache_write,
    cache_write_long,
    cached_input,
    reasoning,
    web_search
  } = usage
  return {
    input_tokens: input + audio_input + image_input,
    cache_creation_input_tokens: cache_write + (cache_write_long ?? 0),
    cache_read_input_tokens: cached_input,
    ...(cache_write_long !== undefined && {
      cache_creation: { ephemeral_5m_input_tokens: cache_write, ephemeral_1h_input_tokens: cache_write_long }
    }),
    output_tokens: completionTokens(usage),
    output_tokens_details: { thinking_tokens: reasoning },
    ...(web_search !== undefined && { server_tool_use: { web_search_requests: web_search } })
  }
}
