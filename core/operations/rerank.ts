// The operation that reranks documents, for clients of Cohere, Jina and others.
import type { Exchange, Stage } from '../contract/contract.ts'
import type { ServedOperation } from '../contract/served.ts'
import { unifiedRerank } from '../protocols/openai/rerank.ts'

/** https://docs.cohere.com/reference/rerank; https://jina.ai/reranker */
export const rerank: ServedOperation = {
  name: 'rerank',
  endpoint: 'rerank',
  summary: 'Orders documents by how well they answer a query.',
  method: 'POST',
  paths: ['/v1/rerank', '/v2/rerank'],
  protocol: 'rerank',
  body: 'json',
  model: { in: 'body', name: 'model' },
  upstream: { openai: { protocol: 'rerank', method: 'POST', target: () => '/rerank' } },
  stageAtUpstream: unified,
  metering: { outputLimits: [], searched: { documents: 'documents', query: 'query' } },
  parsed: { documents: 8 * 1024 * 1024 },
  required: ['model', 'query', 'documents'],
  parameters: {
    model: { type: 'string', description: 'A model of the model list.' },
    query: { type: 'string', description: 'What the documents are to answer.' },
    documents: { type: 'array', description: 'Texts, or objects with a `text`.' },
    top_n: { type: 'integer', minimum: 1, description: 'How many results; all when absent.' },
    return_documents: { type: 'boolean', default: false, description: 'Whether results hold their documents.' }
  }
}

function unified({ body }: Exchange): Stage {
  return {
    map(message, emit) {
      if (message.kind !== 'json') return emit(message)
      const returnDocuments = body.fields.flag('return_documents') === true
      const asked = { returnDocuments, documents: returnDocuments ? body.fields.json('documents') : [] }
      emit(message.withData(Buffer.from(JSON.stringify(unifiedRerank(message.json(), asked)))))
    }
  }
}
