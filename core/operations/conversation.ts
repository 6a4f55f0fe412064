// How upstreams of each protocol are asked to continue a conversation or to make embeddings. A client of any of these
// protocols can be served by any of these upstreams.
import type { Operation, UpstreamForm } from '../contract/operation.ts'
import { invokeBody, predictBody } from '../protocols/anthropic/platforms.ts'
import { takesContent } from '../protocols/embeddings/predict.ts'
import { converseTokens, countTarget } from '../protocols/bedrock/count.ts'
import { eventStreamType } from '../protocols/event-stream.ts'
import { promptHeader } from '../protocols/usage/bedrock.ts'

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

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html */
const invoke: UpstreamForm = {
  ...messages,
  dialect: 'invoke',
  accepts: eventStreamType,
  target: ({ model, streaming }) =>
    `/model/${encodeURIComponent(model)}/${streaming ? 'invoke-with-response-stream' : 'invoke'}`,
  finish: invokeBody
}

/** https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude */
const predict: UpstreamForm = {
  ...messages,
  dialect: 'predict',
  target: ({ model, streaming }) => `/models/${versioned(model)}:${streaming ? 'streamRawPredict' : 'rawPredict'}`,
  finish: predictBody
}

/** A model's name in a path, whose version stands behind an `@`. */
function versioned(model: string): string {
  return encodeURIComponent(model).replaceAll('%40', '@')
}

/** https://ai.google.dev/api/generate-content */
const generate: UpstreamForm = {
  protocol: 'gemini',
  endpoint: 'chat',
  method: 'POST',
  target: ({ model, streaming }) =>
    `/models/${encodeURIComponent(model)}:${streaming ? 'streamGenerateContent?alt=sse' : 'generateContent'}`
}

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html */
const converse: UpstreamForm = {
  protocol: 'bedrock',
  endpoint: 'chat',
  method: 'POST',
  accepts: eventStreamType,
  target: ({ model, streaming }) => `/model/${encodeURIComponent(model)}/${streaming ? 'converse-stream' : 'converse'}`
}

/** How Bedrock counts the tokens of what Converse would be asked. */
export const countConverse: UpstreamForm = {
  protocol: 'bedrock-count',
  endpoint: 'chat',
  method: 'POST',
  target: ({ model }) => countTarget(model),
  counts: 'inputTokens',
  finish: converseTokens
}

/**
 * The upstream forms of a conversation, by the channel's protocol. A channel with both of OpenAI's protocols is asked
 * in the older one, which can express more of what clients of other protocols ask for.
 */
export const conversation = {
  openai: [chat, respond],
  anthropic: [messages, invoke, predict],
  gemini: [generate, { ...generate, dialect: 'predict' }],
  bedrock: converse
} as const

/** The same for clients of Responses: a channel that speaks their own protocol passes the bytes through unchanged. */
export const responding = { ...conversation, openai: [respond, chat] } as const

/** https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api */
const predictVectors: UpstreamForm = {
  protocol: 'gemini-predict',
  dialect: 'predict',
  method: 'POST',
  target: ({ model }) => `/models/${versioned(model)}:${takesContent(model) ? 'embedContent' : 'predict'}`,
  series: { heads: [] }
}

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html */
const invokeVectors: UpstreamForm = {
  protocol: 'bedrock-embed',
  method: 'POST',
  target: ({ model }) => `/model/${encodeURIComponent(model)}/invoke`,
  series: { heads: [promptHeader] }
}

/** Of the Gemini API: its batch method also serves requests for a single text that were translated. */
const batchVectors: UpstreamForm = {
  protocol: 'gemini-embed',
  method: 'POST',
  target: ({ model }) => `/models/${encodeURIComponent(model)}:batchEmbedContents`
}

/** The upstream forms for embeddings; `gemini`: how the Gemini API is asked, if not by a batch. */
export function vectors(gemini: Partial<UpstreamForm> = {}): NonNullable<Operation['upstream']> {
  return {
    openai: { protocol: 'openai-embeddings', method: 'POST', target: () => '/embeddings' },
    gemini: [{ ...batchVectors, ...gemini }, predictVectors],
    bedrock: invokeVectors
  }
}
