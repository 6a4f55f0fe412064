// Usage of speech that is made and of speech that is written down.
import { asObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { readTokens } from './openai-tokens.ts'
import { readSeconds } from './seconds.ts'

/** Reads the usage of `speech.audio.done`. The text to be spoken is input, what is heard of it is audio. */
export function readSpeechUsage(value: unknown): ReportedUsage {
  return readTokens(value, { output: 'audio' })
}

/**
 * Reads a transcription's usage, in tokens or as `{type: "duration", seconds}`; the one that `type` names when it holds
 * both. Input that is not said to be text is audio.
 */
export function readTranscriptionUsage(value: unknown): ReportedUsage {
  const duration = asObject(value)?.['type'] === 'duration'
  return duration ? readSeconds(value) : (readTokens(value, { input: 'audio' }) ?? readSeconds(value))
}
