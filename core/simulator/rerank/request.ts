// The form of a request to rerank documents.
import type { Directive } from '../directive.ts'

/** A request that passed the checks. */
export interface RerankRequest {
  id: string
  model: string
  directive: Directive
  /** The query without its directive. */
  query: string
  /** The texts of the documents. */
  documents: readonly string[]
  /** The most results that are wanted. */
  limit: number
  returnDocuments: boolean
  /** The tokens of the query and of all documents. */
  tokens: number
}
