// The protocols of Gemini's methods that never stream: counting tokens, and embeddings.
import { readGeminiEmbeddingUsage } from '../usage/gemini.ts'
import { withoutStream } from '../whole.ts'
import { noText } from '../plain-text.ts'
import { gemini } from './protocol.ts'
import { geminiText } from './text.ts'

const text = { ...geminiText, answer: noText }

/** https://ai.google.dev/api/tokens */
export const geminiCount = withoutStream(gemini, {
  isAnswer: ({ lens }) => lens?.type('totalTokens') === 'number',
  readUsage: () => undefined,
  text
})

/** https://ai.google.dev/api/embeddings */
export const geminiEmbed = withoutStream(gemini, {
  isAnswer: ({ lens }) => lens?.type('embedding') === 'object' || lens?.type('embeddings') === 'array',
  readUsage: (message) => readGeminiEmbeddingUsage(message.lens?.json('usageMetadata')),
  text
})
