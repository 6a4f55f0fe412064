// Scores documents: the more words of the query a document has, the more relevant it is.
import { hash } from 'node:crypto'
import type { RerankRequest } from './request.ts'

/** A document, by its index in the request. */
export interface Ranked {
  index: number
  /** From 0 to 1. */
  score: number
}

/** The best documents first, as many as are wanted. */
export function rank({ query, documents, limit }: RerankRequest): Ranked[] {
  const wanted = wordsOf(query)
  return documents
    .map((text, index) => ({ index, score: scoreOf(wanted, text) }))
    .sort((one, other) => other.score - one.score || one.index - other.index)
    .slice(0, limit)
}

function scoreOf(wanted: ReadonlySet<string>, text: string): number {
  const found = wordsOf(text)
  const shared = wanted.size === 0 ? 0 : [...wanted].filter((word) => found.has(word)).length / wanted.size
  // Documents with equally many words of the query still get different scores.
  const own = Number.parseInt(hash('sha1', text).slice(0, 4), 16) / 0xffff
  return Number((0.01 + shared * 0.9 + own * 0.08).toFixed(6))
}

function wordsOf(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu))
}
