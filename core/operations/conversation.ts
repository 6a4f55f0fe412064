// How upstreams of each protocol are asked to go on with a conversation, or for vectors; a client of any protocol can
// be served by any of them.
import type { UpstreamForm } from '../contract/operation.ts'

/** https://platform.openai.com/docs/api-reference/chat */
const chat: UpstreamForm = {
  protocol: 'openai-chat',
  endpoint: 'chat',
  method: 'POST',
  target: () => '/chat/completions'
}

/** https://platform.openai.com/docs/api-reference/responses */
const respond: UpstreamForm = {
  protocol: 'openai-responses',
  endpoint: 'responses',
  method: 'POST',
  target: () => '/responses'
}

/** https://platform.claude.com/docs/en/api/messages */
const messages: UpstreamForm = { protocol: 'anthropic', endpoint: 'chat', method: 'POST', target: () => '/messages' }

/** https://ai.google.dev/api/generate-content */
const generate: UpstreamForm = {
  protocol: 'gemini',
  endpoint: 'chat',
  method: 'POST',
  target: ({ model, streaming }) =>
    `/models/${encodeURIComponent(model)}:${streaming ? 'streamGenerateContent?alt=sse' : 'generateContent'}`
}

/**
 * By what a channel speaks. What speaks both of OpenAI's protocols is asked in the older one, which says more of what
 * other clients ask.
 */
export const conversation = { openai: [chat, respond], anthropic: messages, gemini: generate } as const

/** The same for clients of Responses, who are answered byte for byte where their own protocol is spoken. */
export const responding = { ...conversation, openai: [respond, chat] } as const

/** Vectors of texts; one way to ask for them is enough for clients of another protocol. */
export const vectors = {
  openai: { protocol: 'openai-embeddings', method: 'POST', target: () => '/embeddings' },
  gemini: {
    protocol: 'gemini-embed',
    method: 'POST',
    target: ({ model }) => `/models/${encodeURIComponent(model)}:batchEmbedContents`
  }
} as const satisfies Partial<Record<'openai' | 'gemini', UpstreamForm>>
