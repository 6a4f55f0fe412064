// Reads the usage of reranking, in searches or in tokens.
import { asObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { noUsage } from '../../money/usage.ts'
import { account, Counts } from './account.ts'
import { readEmbeddingUsage } from './openai-chat.ts'

/**
 * Reads the usage in a whole answer: some vendors report it in `meta.billed_units`, others in `usage`. If there are
 * both searches and tokens, both are returned, and each has its own price. Neither is derived from the other.
 */
export function readRerankUsage(answer: unknown): ReportedUsage {
  const body = asObject(answer)
  const billed = asObject(asObject(body?.['meta'])?.['billed_units']) ?? {}
  const counts = new Counts()
  const searches = counts.of(billed['search_units'])
  const prompt = counts.of(billed['input_tokens'])
  const completion = counts.of(billed['output_tokens']) ?? (prompt === undefined ? undefined : 0)
  const tokens = account(counts, { prompt, completion }) ?? readEmbeddingUsage(body?.['usage'])
  if (searches === undefined || tokens === 'insane') return tokens
  return { ...(tokens ?? noUsage), search: searches }
}
