// Reads and writes usage in the form of Gemini's `usageMetadata`.
import { completionTokens, promptTokens } from '../../money/usage.ts'
import type { Usage } from '../../money/usage.ts'
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { account, Counts, minus, plus } from './account.ts'
import type { Said, Trust } from './account.ts'

/**
 * Reads the `usageMetadata` of an answer or of an event. In a stream it is cumulative, so the last one counts. The
 * prompt includes cached tokens. Thoughts, and what server-side tools add to the prompt, are counted separately. Prompt
 * or candidates may be missing when the total gives them.
 */
export function readGeminiUsage(value: unknown, total?: Trust): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const counts = new Counts()
  const candidates = counts.of(usage['candidatesTokenCount'])
  return account(counts, said(counts, usage, candidates), total)
}

/** As {@link readGeminiUsage}, for embeddings: they have no output, so the prompt is enough. */
export function readGeminiEmbeddingUsage(value: unknown): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const counts = new Counts()
  const { prompt, completion, ...parts } = said(counts, usage, counts.of(usage['candidatesTokenCount']) ?? 0)
  return account(counts, { ...parts, prompt, completion, total: undefined })
}

function said(counts: Counts, usage: JsonObject, candidates: number | undefined): Said {
  const total = counts.of(usage['totalTokenCount'])
  const thoughts = counts.of(usage['thoughtsTokenCount'])
  const tools = counts.of(usage['toolUsePromptTokenCount'])
  const ownPrompt = counts.of(usage['promptTokenCount'])
  // Some backends include thoughts in the candidates, which the total shows.
  const inside = total !== undefined && total === plus(ownPrompt, tools, candidates)
  const output = candidates === undefined || inside ? candidates : plus(candidates, thoughts)

  const input = modalities(counts, usage['promptTokensDetails'])
  const toolInput = modalities(counts, usage['toolUsePromptTokensDetails'])
  const cached = modalities(counts, usage['cacheTokensDetails'])
  const made = modalities(counts, usage['candidatesTokensDetails'])
  const prompt = ownPrompt === undefined ? minus(total, output) : plus(ownPrompt, tools)
  return {
    prompt,
    completion: output ?? minus(total, prompt),
    total,
    cached: counts.of(usage['cachedContentTokenCount']) ?? plus(cached.text, cached.audio, cached.image),
    textIn: plus(input.text, toolInput.text),
    audioIn: plus(input.audio, toolInput.audio),
    imageIn: plus(input.image, toolInput.image),
    cachedAudio: cached.audio,
    cachedImage: cached.image,
    reasoning: thoughts,
    textOut: made.text,
    audioOut: made.audio,
    imageOut: made.image
  }
}

interface Modalities {
  text: number | undefined
  audio: number | undefined
  image: number | undefined
}

/** Adds up `[{modality, tokenCount}]`. Video and documents have no class of their own and count as text. */
function modalities(counts: Counts, details: unknown): Modalities {
  const sums: Modalities = { text: undefined, audio: undefined, image: undefined }
  if (!Array.isArray(details)) return sums
  for (const item of details as unknown[]) {
    const { modality, tokenCount } = asObject(item) ?? {}
    const name = modality === 'AUDIO' ? 'audio' : modality === 'IMAGE' ? 'image' : 'text'
    sums[name] = plus(sums[name], counts.of(tokenCount))
  }
  return sums
}

/**
 * Writes usage so that {@link readGeminiUsage} reads the same, except that tokens written to a cache become plain
 * input.
 */
export function writeGeminiUsage(usage: Readonly<Usage>): JsonObject {
  const [prompt, completion] = [promptTokens(usage), completionTokens(usage)]
  const { audio_input, image_input, audio_output, image_output } = usage
  const made = (parts: Readonly<Record<string, number | undefined>>, whole: number): unknown[] => {
    const told = Object.entries(parts).flatMap(([modality, tokenCount]) =>
      tokenCount === undefined ? [] : [{ modality, tokenCount }]
    )
    const rest = whole - told.reduce((sum, { tokenCount }) => sum + tokenCount, 0)
    return told.length === 0 ? told : [{ modality: 'TEXT', tokenCount: rest }, ...told]
  }
  const input = made({ AUDIO: audio_input, IMAGE: image_input }, prompt)
  const output = made({ AUDIO: audio_output, IMAGE: image_output }, completion - usage.reasoning)
  return {
    promptTokenCount: prompt,
    ...(usage.cached_input > 0 && { cachedContentTokenCount: usage.cached_input }),
    candidatesTokenCount: completion - usage.reasoning,
    ...(usage.reasoning > 0 && { thoughtsTokenCount: usage.reasoning }),
    totalTokenCount: prompt + completion,
    ...(input.length > 0 && { promptTokensDetails: input }),
    ...(output.length > 0 && { candidatesTokensDetails: output })
  }
}
