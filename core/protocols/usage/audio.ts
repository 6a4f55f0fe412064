// Reads the usage of speech and of transcriptions.
import { asObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { readTokens } from './openai-tokens.ts'
import { readSeconds } from './seconds.ts'

/** Reads the usage of `speech.audio.done`. Its input is text, its output audio. */
export function readSpeechUsage(value: unknown): ReportedUsage {
  return readTokens(value, { output: 'audio' })
}

/**
 * Reads a transcription's usage, in tokens or as `{type: "duration", seconds}`. With both, `type` decides. Input is
 * audio unless it is reported as text.
 */
export function readTranscriptionUsage(value: unknown): ReportedUsage {
  const duration = asObject(value)?.['type'] === 'duration'
  return duration ? readSeconds(value) : (readTokens(value, { input: 'audio' }) ?? readSeconds(value))
}
