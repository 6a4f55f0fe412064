// Reranking, which has no API that all agree on: the same scores in the shapes of three vendors.
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

/** A search unit is one query with up to so many documents: https://cohere.com/pricing */
const documentsPerSearch = 100

const common = { admits: openai.admits, headers: openai.headers, failure: openai.failure }

/** https://docs.cohere.com/reference/rerank; its own client is known on `/v1/rerank` by what it says of itself. */
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

/** https://jina.ai/reranker/, and what self-hosted engines speak. */
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

/** By the first that claims a request. */
export const reranking: readonly Protocol[] = [cohere, selfHosted, voyageAi]
