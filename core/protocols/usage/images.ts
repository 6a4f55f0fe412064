// Usage of calls that make pictures: tokens where the upstream counts them, pictures where it does not.
import { noUsage } from '../../money/usage.ts'
import { asObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { readTokens } from './openai-tokens.ts'

/** Reads `usage` of an answer or of a stream's last event. Output that is not said to be text is picture. */
export function readImagesUsage(value: unknown): ReportedUsage {
  return readTokens(value, { output: 'image' })
}

/** Counts the pictures of a whole answer, for those without `usage`. Undefined when there is no list of them. */
export function countPictures(answer: unknown): ReportedUsage {
  const pictures = asObject(answer)?.['data']
  return Array.isArray(pictures) ? { ...noUsage, image: pictures.length } : undefined
}
