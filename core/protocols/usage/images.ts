// Usage of calls that make pictures, where the upstream counts tokens.
import type { ReportedUsage } from '../protocol.ts'
import { readTokens } from './openai-tokens.ts'

/** Reads `usage` of an answer or of a stream's last event. Output that is not said to be text is picture. */
export function readImagesUsage(value: unknown): ReportedUsage {
  return readTokens(value, { output: 'image' })
}
