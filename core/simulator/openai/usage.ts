// What completions and chats report as usage, and what they are counted as.
import type { Directive } from '../directive.ts'
import type { Counts } from '../stats.ts'
import type { Composition, Conversation } from '../words/composition.ts'

/** What a request and its answers are worth. */
export function countsOf({ directive, promptTokens }: Conversation, answers: readonly Composition[]): Counts {
  const written = Math.min(directive.written_tokens ?? 0, promptTokens)
  const reasoning = answers.reduce((sum, composition) => sum + composition.reasoning.tokens, 0)
  return {
    prompt: promptTokens,
    cached: Math.min(directive.cached_tokens ?? 0, promptTokens - written),
    ...(written > 0 && { written }),
    completion: answers.reduce((sum, { tokens }) => sum + tokens, 0),
    ...(reasoning > 0 && { reasoning })
  }
}

/** `usage` of a completion; null where a directive wants none. */
export function chatUsage({ usage }: Directive, { prompt = 0, cached = 0, written = 0, completion = 0, reasoning = 0 }: Counts): unknown {
  if (usage !== undefined) return usage
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: cached, ...(written > 0 && { cache_write_tokens: written }), audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 }
  }
}
