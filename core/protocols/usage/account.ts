// Splits the counts that upstreams report into the disjoint classes of a usage.
import type { Usage } from '../../money/usage.ts'
import type { ReportedUsage } from '../protocol.ts'

/** Reads counts, and remembers whether one of them was not a count. Null counts as absent. */
export class Counts {
  insane = false

  of(value: unknown): number | undefined {
    if (value === undefined || value === null) return undefined
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
    this.insane = true
    return undefined
  }
}

/** Whether a total is known to belong to the same call and family as the parts. */
export type Trust = 'trusted' | 'disputed'

/** What an upstream reported for one call, in tokens. Parts are included in their whole; undefined was not reported. */
export interface Said {
  /** The whole prompt. */
  prompt: number | undefined
  /** The whole output. */
  completion: number | undefined
  /**
   * Prompt and output together. It gives a side that was not reported, and output that neither side has: see {@link
   * account}.
   */
  total?: number | undefined
  /** Of the prompt: read from a cache. */
  cached?: number | undefined
  /** Of the prompt: written to a cache. */
  written?: number | undefined
  /** Of `written`: kept for longer than usual. */
  writtenLong?: number | undefined
  /** Of the prompt, by medium. Cached tokens are included. */
  textIn?: number | undefined
  audioIn?: number | undefined
  imageIn?: number | undefined
  /** Of the cached tokens, by medium. */
  cachedAudio?: number | undefined
  cachedImage?: number | undefined
  /** Of the output. */
  reasoning?: number | undefined
  textOut?: number | undefined
  audioOut?: number | undefined
  imageOut?: number | undefined
}

/**
 * Subtracts the parts from their wholes. Undefined when a side was not reported and does not follow from the total, as
 * a missing count is not zero; `insane` when a value is no count, or parts exceed their whole.
 *
 * Tokens of the total that neither side has are output that was not reported: thoughts, besides those that were. This
 * does not apply to a `disputed` total, of a report in the words of several families: it may be another family's.
 *
 * Cached tokens count as cached first and as audio or pictures second, so that none counts twice. Cached tokens of an
 * unknown medium count as text first, then pictures, then audio, because prompts begin with text.
 */
export function account(counts: Counts, said: Said, total: Trust = 'trusted'): ReportedUsage {
  const {
    total: whole,
    cached = 0,
    written = 0,
    writtenLong = 0,
    textIn = 0,
    reasoning = 0,
    textOut = 0,
    audioOut = 0,
    imageOut = 0
  } = said
  const { cachedAudio = 0, cachedImage = 0 } = said
  const prompt = said.prompt ?? minus(whole, said.completion)
  let completion = said.completion ?? minus(whole, said.prompt)
  if (counts.insane) return 'insane'
  if (prompt === undefined || completion === undefined) return undefined

  const rest = Math.max(0, (whole ?? 0) - prompt - completion)
  const unsaid = total === 'trusted' || rest === reasoning ? rest : 0
  completion += unsaid
  const allAudio = said.audioIn ?? cachedAudio
  const allImage = said.imageIn ?? cachedImage
  let audioIn = allAudio - cachedAudio
  let imageIn = allImage - cachedImage
  let input = prompt - cached - written - audioIn - imageIn
  const output = completion - audioOut - imageOut
  const isSound =
    Math.min(audioIn, imageIn, output, audioOut, imageOut) >= 0 &&
    Number.isSafeInteger(prompt + completion) &&
    writtenLong <= written &&
    cached + written <= prompt &&
    cachedAudio + cachedImage <= cached &&
    textIn + allAudio + allImage <= prompt &&
    textOut + audioOut + imageOut <= completion &&
    reasoning <= completion
  if (!isSound) return 'insane'

  const image = Math.min(imageIn, Math.max(0, -input))
  imageIn -= image
  input += image
  const audio = Math.max(0, -input)
  audioIn -= audio
  input += audio
  // Unreported output may include the reported thoughts, or come in addition.
  const thought = unsaid === reasoning ? reasoning : Math.min(completion, reasoning + unsaid)
  const usage: Usage = { input, cached_input: cached, cache_write: written - writtenLong, output, reasoning: thought }
  if (writtenLong > 0) usage.cache_write_long = writtenLong
  if (audioIn > 0) usage.audio_input = audioIn
  if (audioOut > 0) usage.audio_output = audioOut
  if (imageIn > 0) usage.image_input = imageIn
  if (imageOut > 0) usage.image_output = imageOut
  return usage
}

/** `whole - part`; undefined when one of them is. */
export function minus(whole: number | undefined, part: number | undefined): number | undefined {
  return whole === undefined || part === undefined ? undefined : whole - part
}

/** The sum of what was reported; undefined when nothing was. */
export function plus(...parts: readonly (number | undefined)[]): number | undefined {
  let sum: number | undefined
  for (const part of parts) if (part !== undefined) sum = (sum ?? 0) + part
  return sum
}
