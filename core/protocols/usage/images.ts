// Reads the usage of pictures, where the upstream counts tokens.
import type { ReportedUsage } from '../protocol.ts'
import { readTokens } from './openai-tokens.ts'

/** Reads `usage` of an answer or of a stream's last event. Output is pictures unless it is reported as text. */
export function readImagesUsage(value: unknown): ReportedUsage {
  return readTokens(value, { output: 'image' })
}
