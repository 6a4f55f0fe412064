// What is asked for when documents are to be reranked.
import type { Directive } from '../directive.ts'

/** A request that can be answered. */
export interface RerankRequest {
  id: string
  model: string
  directive: Directive
  /** Without its directive. */
  query: string
  /** The texts of the documents. */
  documents: readonly string[]
  /** The most results wanted. */
  limit: number
  returnDocuments: boolean
  /** Of the query and all documents. */
  tokens: number
}
