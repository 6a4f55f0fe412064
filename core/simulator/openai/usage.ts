// The usage of completions and chat completions.
import type { Directive } from '../directive.ts'
import type { Counts } from '../stats.ts'

/** The member `usage` of a completion; null when a directive wants none. */
export function chatUsage(
  { usage }: Directive,
  { prompt = 0, cached = 0, written = 0, completion = 0, reasoning = 0 }: Counts
): unknown {
  if (usage !== undefined) return usage
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: cached,
      ...(written > 0 && { cache_write_tokens: written }),
      audio_tokens: 0
    },
    completion_tokens_details: {
      reasoning_tokens: reasoning,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0
    }
  }
}
