// Reranking, in which vendors differ: the same scores in the forms of three vendors.
import { jsonAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint, Protocol } from '../endpoint.ts'
import { openai } from '../openai/openai.ts'
import { readRerankRequest } from './read-request.ts'
import { rank } from './score.ts'
import { cohere1, cohere2, jina, voyage } from './shapes.ts'
import type { Shape } from './shapes.ts'

function endpoints(shape: Shape, ...paths: string[]): Endpoint[] {
  return paths.map((path) => ({ method: 'POST', path, answer: (call) => answer(call, shape) }))
}

function answer(call: Call, shape: Shape): Answer {
  const request = readRerankRequest(call, shape)
  const ranked = rank(request)
  const searches = Math.ceil(request.documents.length / documentsPerSearch)
  const prompt = request.tokens
  return jsonAnswer(shape.reply(request, ranked, { prompt, searches }), request.directive, { prompt, searches })
}

/** One search unit is a query with up to this many documents: https://cohere.com/pricing */
const documentsPerSearch = 100

const common = { admits: openai.admits, headers: openai.headers, failure: openai.failure }

/** https://docs.cohere.com/reference/rerank. On `/v1/rerank`, Cohere's own client is recognized by its header. */
const cohere: Protocol = {
  ...common,
  endpoints: [
    ...endpoints(cohere1, '/v1/rerank', '/cohere/v1/rerank'),
    ...endpoints(cohere2, '/v2/rerank', '/cohere/v2/rerank')
  ],
  claims: (path, headers) =>
    path === '/v2/rerank' ||
    path.startsWith('/cohere/') ||
    (path === '/v1/rerank' && headers['x-fern-sdk-name'] === 'cohere-ai'),
  envelope: (_status, message) => ({ message })
}

/** https://jina.ai/reranker/, and self-hosted engines with the same form. */
const selfHosted: Protocol = {
  ...common,
  endpoints: endpoints(jina, '/v1/rerank', '/jina/v1/rerank'),
  claims: (path) => path === '/v1/rerank' || path.startsWith('/jina/'),
  envelope: (_status, message) => ({ detail: message })
}

/** https://docs.voyageai.com/reference/reranker-api */
const voyageAi: Protocol = {
  ...common,
  endpoints: endpoints(voyage, '/voyage/v1/rerank'),
  claims: (path) => path.startsWith('/voyage/'),
  envelope: (_status, message) => ({ detail: message })
}

/** The first one that claims a request answers it. */
export const reranking: readonly Protocol[] = [cohere, selfHosted, voyageAi]
