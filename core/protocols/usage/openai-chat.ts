// Reads and writes usage in the form of OpenAI's chat completions, which completions, embeddings and most vendors
// share.
import { completionTokens, promptTokens } from '../../money/usage.ts'
import type { Usage } from '../../money/usage.ts'
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { account, Counts } from './account.ts'
import type { Said, Trust } from './account.ts'

/**
 * Reads `{prompt_tokens, completion_tokens, total_tokens, …_details}`. The prompt includes cached, written and audio
 * tokens (OpenAI's reference, "usage"). One side may be missing when the total gives it.
 */
export function readChatUsage(value: unknown, total?: Trust): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const counts = new Counts()
  return account(counts, said(counts, usage), total)
}

/** As {@link readChatUsage}, for calls without output: the prompt is enough, and a total alone is the prompt. */
export function readEmbeddingUsage(value: unknown): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const counts = new Counts()
  const { prompt, completion, total, ...parts } = said(counts, usage)
  return account(counts, {
    prompt,
    completion: completion ?? (prompt === undefined && total === undefined ? undefined : 0),
    // The part of the total beyond the prompt is not output here.
    total: prompt === undefined ? total : undefined,
    ...parts
  })
}

function said(counts: Counts, usage: JsonObject): Said {
  const input = asObject(usage['prompt_tokens_details']) ?? {}
  const output = asObject(usage['completion_tokens_details']) ?? {}
  return {
    prompt: counts.of(usage['prompt_tokens']),
    completion: counts.of(usage['completion_tokens']),
    total: counts.of(usage['total_tokens']),
    // Some vendors report cached tokens at the top level.
    cached:
      counts.of(input['cached_tokens']) ??
      counts.of(usage['prompt_cache_hit_tokens']) ??
      counts.of(usage['cached_tokens']),
    written: counts.of(input['cache_write_tokens']),
    audioIn: counts.of(input['audio_tokens']),
    imageIn: counts.of(input['image_tokens']),
    reasoning: counts.of(output['reasoning_tokens']),
    audioOut: counts.of(output['audio_tokens']),
    imageOut: counts.of(output['image_tokens'])
  }
}

/**
 * Writes usage so that {@link readChatUsage} reads the same, except for how long a cache keeps what was written. Units
 * other than tokens are left out.
 */
export function writeChatUsage(usage: Readonly<Usage>): JsonObject {
  const [prompt, completion] = [promptTokens(usage), completionTokens(usage)]
  const { cache_write_long = 0, audio_input, image_input, audio_output, image_output } = usage
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: usage.cached_input,
      cache_write_tokens: usage.cache_write + cache_write_long,
      ...(audio_input !== undefined && { audio_tokens: audio_input }),
      ...(image_input !== undefined && { image_tokens: image_input })
    },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoning,
      ...(audio_output !== undefined && { audio_tokens: audio_output }),
      ...(image_output !== undefined && { image_tokens: image_output })
    }
  }
}
