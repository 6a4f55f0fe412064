// Usage as OpenAI-compatible upstreams report it, turned into disjoint classes.
import type { ReportedUsage } from './protocol.ts'

type Fields = Readonly<Record<string, unknown>>

/** `value` when it is an object that is no array. */
export function asObject(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined
}

/**
 * Reads `{prompt_tokens, completion_tokens, total_tokens, …_details}`. Cached, written and audio tokens are parts of the
 * prompt there (OpenAI's reference, "usage"), so they are taken out of it. Undefined when one side is neither reported nor
 * follows from the total: what is missing is not zero.
 */
export function readOpenAiUsage(value: unknown): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const counts = new Counts()
  const total = counts.of(usage['total_tokens'])
  let prompt = counts.of(usage['prompt_tokens'])
  let completion = counts.of(usage['completion_tokens'])
  if (total !== undefined) {
    if (prompt !== undefined) completion ??= total - prompt
    else if (completion !== undefined) prompt = total - completion
  }
  if (prompt === undefined || completion === undefined) return counts.insane ? 'insane' : undefined

  const input = asObject(usage['prompt_tokens_details']) ?? {}
  const output = asObject(usage['completion_tokens_details']) ?? {}
  // Some vendors put the cached share at the top level.
  const cached = counts.of(input['cached_tokens']) ?? counts.of(usage['prompt_cache_hit_tokens']) ?? counts.of(usage['cached_tokens']) ?? 0
  const written = counts.of(input['cache_write_tokens']) ?? 0
  const audioIn = counts.of(input['audio_tokens']) ?? 0
  const imageIn = counts.of(input['image_tokens']) ?? 0
  const reasoning = counts.of(output['reasoning_tokens']) ?? 0
  const audioOut = counts.of(output['audio_tokens']) ?? 0
  // Where the total shows that reasoning was counted beside the completion, it belongs to the output all the same.
  if (total !== undefined && reasoning > 0 && total === prompt + completion + reasoning) completion += reasoning

  const plainIn = prompt - cached - written - audioIn - imageIn
  const plainOut = completion - audioOut
  if (counts.insane || plainIn < 0 || plainOut < 0 || reasoning > completion) return 'insane'
  return {
    input: plainIn,
    cached_input: cached,
    cache_write: written,
    output: plainOut,
    reasoning,
    ...(audioIn > 0 && { audio_input: audioIn }),
    ...(imageIn > 0 && { image_input: imageIn }),
    ...(audioOut > 0 && { audio_output: audioOut })
  }
}

/** Reads counts and remembers whether one of them could not be a count. Null is as good as absent. */
class Counts {
  insane = false

  of(value: unknown): number | undefined {
    if (value === undefined || value === null) return undefined
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
    this.insane = true
    return undefined
  }
}
