// The protocol of reranking, in which several vendors differ. Clients of all of them can read the gateway's one form.
import { asNumber, asObject, compareNumbers } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Protocol } from '../protocol.ts'
import { openaiChat } from '../openai-chat/protocol.ts'
import { readRerankUsage } from '../usage/rerank.ts'
import { plainText } from '../text/plain-text.ts'
import { hasList, withoutStream } from '../whole.ts'

/** https://docs.cohere.com/reference/rerank, https://jina.ai/reranker; also upstreams that name the results `data`. */
export const rerank: Protocol = {
  ...withoutStream(openaiChat, {
    isAnswer: (message) => hasList(message, 'results') || hasList(message, 'data'),
    readUsage: (message) => readRerankUsage(message.json()),
    // An answer has no text except the documents of the request.
    text: plainText({ prompt: ['query', 'documents'] })
  }),
  // Clients of one vendor read `message` at the top, the others `error`.
  errorBody: (error) => ({ message: error.message, ...(openaiChat.errorBody(error) as object) })
}

/**
 * An answer that clients of all vendors can read: `results` by descending score, documents as `{text}` if they were
 * asked for, and usage as tokens and billed units, as far as the upstream reported them.
 */
export function unifiedRerank(answer: unknown, asked: { returnDocuments: boolean; documents: unknown }): unknown {
  const { data, results: given, usage, meta, ...rest } = asObject(answer) ?? {}
  const results = list(given ?? data).map((result) => ({
    index: result['index'],
    relevance_score: result['relevance_score'],
    ...(asked.returnDocuments && documentOf(result, asked.documents))
  }))
  results.sort((a, b) => compareNumbers(b.relevance_score, a.relevance_score))
  const billed = asObject(asObject(meta)?.['billed_units'])
  const tokens = asObject(usage)
  const input =
    numberOf(tokens?.['prompt_tokens']) ?? numberOf(tokens?.['total_tokens']) ?? numberOf(billed?.['input_tokens'])
  return {
    ...rest,
    object: 'list',
    results,
    ...(input !== undefined && {
      usage: { prompt_tokens: input, completion_tokens: 0, total_tokens: numberOf(tokens?.['total_tokens']) ?? input }
    }),
    meta: {
      api_version: { version: '1' },
      ...asObject(meta),
      ...(!billed && input !== undefined && { billed_units: { input_tokens: input } })
    }
  }
}

function list(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.map((item) => asObject(item) ?? {}) : []
}

function documentOf({ document, index }: JsonObject, documents: unknown): { document: unknown } | undefined {
  const own = document ?? (Array.isArray(documents) ? (documents as unknown[])[asNumber(index)] : undefined)
  if (own === undefined || own === null) return undefined
  return { document: typeof own === 'string' ? { text: own } : own }
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}
