// Usage of rerankings, in searches or in tokens.
import { asObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import { noUsage } from '../../money/usage.ts'
import { account, Counts } from './account.ts'
import { readEmbeddingUsage } from './openai-chat.ts'

/**
 * Reads a whole answer, as one dialect reports in `meta.billed_units` and the others in `usage`. An
 * answer with both has both, each priced on its own; the one that is missing is not made up.
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
