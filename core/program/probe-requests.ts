// The small requests that channels are tried with, one for each endpoint that costs little to try.
import type { Channel } from '../catalogue/catalogue.ts'

/** The request of one endpoint: its path, and its body as JSON. */
interface ProbeRequest {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
}

const word = 'Say OK.'

/** The requests by endpoint. Pictures, videos and sessions are not among them: they are dear, or no single request. */
export const probeRequests = {
  chat: (model: string): ProbeRequest => ({
    path: '/v1/chat/completions',
    body: { model, stream: true, max_completion_tokens: 16, messages: [{ role: 'user', content: word }] }
  }),
  responses: (model: string): ProbeRequest => ({
    path: '/v1/responses',
    body: { model, stream: true, store: false, max_output_tokens: 16, input: word }
  }),
  completions: (model: string): ProbeRequest => ({
    path: '/v1/completions',
    body: { model, max_tokens: 8, prompt: word }
  }),
  embeddings: (model: string): ProbeRequest => ({ path: '/v1/embeddings', body: { model, input: 'OK' } }),
  moderations: (model: string): ProbeRequest => ({ path: '/v1/moderations', body: { model, input: 'OK' } }),
  rerank: (model: string): ProbeRequest => ({
    path: '/v1/rerank',
    body: { model, query: 'fruit', documents: ['apple', 'stone'] }
  }),
  audio: (model: string): ProbeRequest => ({
    path: '/v1/audio/speech',
    body: { model, input: 'OK.', voice: 'alloy' }
  })
} as const

/** An endpoint that channels can be tried with. */
export type ProbedEndpoint = keyof typeof probeRequests

/** All of them. */
export const probedEndpoints = Object.keys(probeRequests) as ProbedEndpoint[]

/** What models of other endpoints than chat are usually called. */
const names: readonly (readonly [RegExp, ProbedEndpoint])[] = [
  [/embed|voyage-\d|\bbge\b|\be5\b/i, 'embeddings'],
  [/rerank/i, 'rerank'],
  [/moderation|guard/i, 'moderations'],
  [/tts|speech/i, 'audio'],
  [/instruct$|davinci|babbage/i, 'completions']
]

/** The endpoint that a model looks to be for, by its names and by what the channel lists. */
export function endpointOf(model: string, { endpoints, models }: Channel): ProbedEndpoint {
  const both = `${model} ${models.get(model) ?? ''}`
  const [, named] = names.find(([pattern, endpoint]) => pattern.test(both) && endpoints.has(endpoint)) ?? []
  return named ?? probedEndpoints.find((endpoint) => endpoints.has(endpoint)) ?? 'chat'
}
