// Usage in the words of Gemini's `usageMetadata`.
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { account, Counts, minus, plus } from './account.ts'
import type { Said } from './account.ts'

/**
 * Reads the `usageMetadata` of an answer, or of a stream's event: it is cumulative there, so the last one holds. The prompt has
 * the cached part in it; what server-side tools put into the prompt, and thoughts, are counted beside prompt and candidates. One
 * of prompt and candidates may be missing when the total tells it.
 */
export function readGeminiUsage(value: unknown): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const counts = new Counts()
  const candidates = counts.of(usage['candidatesTokenCount'])
  return account(counts, said(counts, usage, candidates))
}

/** As {@link readGeminiUsage}, for embeddings: they have no output, so the prompt is enough. */
export function readGeminiEmbeddingUsage(value: unknown): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const counts = new Counts()
  const { prompt, completion, ...parts } = said(counts, usage, counts.of(usage['candidatesTokenCount']) ?? 0)
  return account(counts, { prompt, completion, ...parts })
}

function said(counts: Counts, usage: JsonObject, candidates: number | undefined): Said {
  const total = counts.of(usage['totalTokenCount'])
  const thoughts = counts.of(usage['thoughtsTokenCount'])
  const tools = counts.of(usage['toolUsePromptTokenCount'])
  const ownPrompt = counts.of(usage['promptTokenCount'])
  // Some backends count thoughts among the candidates, and the total shows it.
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

/** Adds up `[{modality, tokenCount}]`. Video and documents have no class of their own and stay with the text. */
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
