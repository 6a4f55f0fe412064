// Reads usage in the form of Bedrock's Converse.
import { asObject, asObjects } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { account, Counts, plus } from './account.ts'

/**
 * Reads the usage of an answer, or of the last event of a stream. `inputTokens` is neither read from a cache nor
 * written to one, so the prompt is the sum of the three. Thoughts are part of the output and not told apart.
 * https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html
 */
export function readBedrockUsage(value: unknown): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const counts = new Counts()
  const input = counts.of(usage['inputTokens'])
  const cached = counts.of(usage['cacheReadInputTokens']) ?? 0
  let long = 0
  let parts = 0
  for (const { ttl, inputTokens } of asObjects(usage['cacheDetails'])) {
    const tokens = counts.of(inputTokens) ?? 0
    parts = plus(parts, tokens)!
    if (ttl === '1h') long += tokens
  }
  const written = counts.of(usage['cacheWriteInputTokens']) || parts
  const prompt = input === undefined ? undefined : input + cached + written
  return account(counts, {
    prompt,
    cached,
    written,
    writtenLong: long,
    completion: counts.of(usage['outputTokens'])
  })
}

/** The header with the tokens of a prompt, on every answer of a model that was invoked. */
export const promptHeader = 'x-amzn-bedrock-input-token-count'

/** The tokens that the headers of all answers of a series tell; undefined where one does not. */
export function invokedTokens(heads: unknown): number | undefined {
  let sum = 0
  for (const head of asObjects(heads)) {
    const count = head[promptHeader]
    if (typeof count !== 'string' || !/^\d{1,15}$/.test(count)) return undefined
    sum += Number(count)
  }
  return sum
}
