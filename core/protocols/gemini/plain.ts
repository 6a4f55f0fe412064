// Gemini's methods that answer as a whole: counting tokens, and vectors.
import { readGeminiEmbeddingUsage } from '../usage/gemini.ts'
import { withoutStream } from '../whole.ts'
import { gemini } from './protocol.ts'

/** https://ai.google.dev/api/tokens */
export const geminiCount = withoutStream(gemini, {
  isAnswer: ({ lens }) => lens?.type('totalTokens') === 'number',
  readUsage: () => undefined
})

/** https://ai.google.dev/api/embeddings */
export const geminiEmbed = withoutStream(gemini, {
  isAnswer: ({ lens }) => lens?.type('embedding') === 'object' || lens?.type('embeddings') === 'array',
  readUsage: (message) => readGeminiEmbeddingUsage(message.lens?.json('usageMetadata'))
})
