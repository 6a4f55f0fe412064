// The vendors' forms of reranking: their replies, and how their requests differ.
import type { Counts } from '../stats.ts'
import type { RerankRequest } from './request.ts'
import type { Ranked } from './score.ts'

/** The form of one vendor. */
export interface Shape {
  /** The member that limits the results. */
  limit: 'top_n' | 'top_k'
  modelRequired: boolean
  /** Whether documents may be objects with a `text`. */
  objects: boolean
  /** Whether documents are returned by default; undefined: they never are. */
  returnsDocuments: boolean | undefined
  reply(request: RerankRequest, ranked: readonly Ranked[], counts: Counts): unknown
}

const score = ({ index, score: relevance }: Ranked): object => ({ index, relevance_score: relevance })
const withText = (request: RerankRequest, ranked: readonly Ranked[]): unknown[] =>
  ranked.map((entry) => ({
    ...score(entry),
    ...(request.returnDocuments && { document: { text: request.documents[entry.index] } })
  }))

function billed({ directive }: RerankRequest, version: string, { searches }: Counts): unknown {
  const units = directive.usage === undefined ? { search_units: searches } : directive.usage
  return { api_version: { version }, ...(units !== null && { billed_units: units }) }
}

function used({ directive }: RerankRequest, usage: unknown): object {
  const shown = directive.usage === undefined ? usage : directive.usage
  return shown === null ? {} : { usage: shown }
}

/** Cohere's version 1, which charges search units. */
export const cohere1: Shape = {
  limit: 'top_n',
  modelRequired: false,
  objects: true,
  returnsDocuments: false,
  reply: (request, ranked, counts) => ({
    id: request.id,
    results: withText(request, ranked),
    meta: billed(request, '1', counts)
  })
}

/** Cohere's version 2, which never returns documents. */
export const cohere2: Shape = {
  limit: 'top_n',
  modelRequired: true,
  objects: false,
  returnsDocuments: undefined,
  reply: (request, ranked, counts) => ({
    id: request.id,
    results: ranked.map(score),
    meta: billed(request, '2', counts)
  })
}

/** Charges tokens, and returns documents by default. */
export const jina: Shape = {
  limit: 'top_n',
  modelRequired: true,
  objects: true,
  returnsDocuments: true,
  reply: (request, ranked, { prompt }) => ({
    model: request.model,
    object: 'list',
    ...used(request, { total_tokens: prompt, prompt_tokens: prompt }),
    results: withText(request, ranked)
  })
}

/** Charges tokens. Its results are in `data`, and documents are strings. */
export const voyage: Shape = {
  limit: 'top_k',
  modelRequired: true,
  objects: false,
  returnsDocuments: false,
  reply: (request, ranked, { prompt }) => ({
    object: 'list',
    data: ranked.map((entry) => ({
      ...score(entry),
      ...(request.returnDocuments && { document: request.documents[entry.index] })
    })),
    model: request.model,
    ...used(request, { total_tokens: prompt })
  })
}
