// How upstreams of each protocol are asked to go on with a conversation; a client of any protocol can be served by any of them.
import type { UpstreamForm } from '../contract/operation.ts'

/** https://platform.openai.com/docs/api-reference/chat */
const chat: UpstreamForm = { protocol: 'openai-chat', method: 'POST', target: () => '/chat/completions' }

/** https://platform.claude.com/docs/en/api/messages */
const messages: UpstreamForm = { protocol: 'anthropic', method: 'POST', target: () => '/messages' }

/** https://ai.google.dev/api/generate-content */
const generate: UpstreamForm = {
  protocol: 'gemini',
  method: 'POST',
  target: ({ model, streaming }) => `/models/${encodeURIComponent(model)}:${streaming ? 'streamGenerateContent?alt=sse' : 'generateContent'}`
}

/** By what a channel speaks. */
export const conversation = { openai: chat, anthropic: messages, gemini: generate } as const
