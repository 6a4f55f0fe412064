// Reads and writes usage in the form of OpenAI's newer interfaces: Responses, Realtime, pictures and audio.
import { completionTokens, promptTokens } from '../../money/usage.ts'
import type { Usage } from '../../money/usage.ts'
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { account, Counts, minus, plus } from './account.ts'
import type { Said, Trust } from './account.ts'

/** The medium of tokens without details, in interfaces for other media than text. */
export interface Medium {
  input?: 'audio'
  output?: 'audio' | 'image'
}

/**
 * Reads `{input_tokens, output_tokens, total_tokens, …}` of a response in any final state, or of a compaction. The
 * input includes cached and written tokens; the output includes reasoning.
 */
export function readResponsesUsage(value: unknown, total?: Trust): ReportedUsage {
  return readTokens(value, {}, total)
}

/** Reads the usage of a Realtime `response.done`. The session's usage is the sum of these. */
export function readRealtimeUsage(value: unknown): ReportedUsage {
  return readTokens(value)
}

/**
 * Reads the form that these interfaces share. The names of details are accepted in plural and singular, as vendors mix
 * them.
 */
export function readTokens(value: unknown, medium: Medium = {}, trust?: Trust): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const counts = new Counts()
  const input = asObject(usage['input_tokens_details']) ?? asObject(usage['input_token_details']) ?? {}
  const output = asObject(usage['output_tokens_details']) ?? asObject(usage['output_token_details']) ?? {}
  const cachedParts = asObject(input['cached_tokens_details']) ?? {}
  const writtenParts = asObject(input['cache_write_tokens_details']) ?? {}

  const writtenLong = counts.of(writtenParts['ttl_12h_tokens'])
  const total = counts.of(usage['total_tokens'])
  const [saidIn, saidOut] = [counts.of(usage['input_tokens']), counts.of(usage['output_tokens'])]
  const prompt = saidIn ?? minus(total, saidOut)
  const completion = saidOut ?? minus(total, saidIn)
  const [textIn, imageIn] = [counts.of(input['text_tokens']), counts.of(input['image_tokens'])]
  const [textOut, audioOut, imageOut] = [
    counts.of(output['text_tokens']),
    counts.of(output['audio_tokens']),
    counts.of(output['image_tokens'])
  ]
  const [cachedText, cachedAudio, cachedImage] = [
    counts.of(cachedParts['text_tokens']),
    counts.of(cachedParts['audio_tokens']),
    counts.of(cachedParts['image_tokens'])
  ]
  const said: Said = {
    prompt,
    completion,
    total,
    cached: counts.of(input['cached_tokens']) ?? plus(cachedText, cachedAudio, cachedImage),
    written: counts.of(input['cache_write_tokens']) ?? plus(counts.of(writtenParts['ttl_30m_tokens']), writtenLong),
    writtenLong,
    textIn,
    audioIn:
      counts.of(input['audio_tokens']) ??
      (medium.input === 'audio' ? minus(prompt, plus(0, textIn, imageIn)) : undefined),
    imageIn,
    cachedAudio,
    cachedImage,
    reasoning: counts.of(output['reasoning_tokens']),
    textOut,
    audioOut: audioOut ?? (medium.output === 'audio' ? minus(completion, plus(0, textOut, imageOut)) : undefined),
    imageOut: imageOut ?? (medium.output === 'image' ? minus(completion, plus(0, textOut, audioOut)) : undefined)
  }
  return account(counts, said, trust)
}

/** Writes usage so that {@link readResponsesUsage} reads the same. */
export function writeResponsesUsage(usage: Readonly<Usage>): JsonObject {
  const [prompt, completion] = [promptTokens(usage), completionTokens(usage)]
  const { cache_write, cache_write_long, audio_input, image_input, audio_output, image_output } = usage
  return {
    input_tokens: prompt,
    input_tokens_details: {
      cached_tokens: usage.cached_input,
      cache_write_tokens: cache_write + (cache_write_long ?? 0),
      ...(cache_write_long !== undefined && {
        cache_write_tokens_details: { ttl_30m_tokens: cache_write, ttl_12h_tokens: cache_write_long }
      }),
      ...(audio_input !== undefined && { audio_tokens: audio_input }),
      ...(image_input !== undefined && { image_tokens: image_input })
    },
    output_tokens: completion,
    output_tokens_details: {
      reasoning_tokens: usage.reasoning,
      ...(audio_output !== undefined && { audio_tokens: audio_output }),
      ...(image_output !== undefined && { image_tokens: image_output })
    },
    total_tokens: prompt + completion
  }
}
