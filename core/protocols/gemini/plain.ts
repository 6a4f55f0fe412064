// The protocols of Gemini's methods that never stream: counting tokens, and embeddings, on Vertex AI too.
import type { Payload, ReportedUsage } from '../protocol.ts'
import { account, Counts } from '../usage/account.ts'
import { readGeminiEmbeddingUsage } from '../usage/gemini.ts'
import { withoutStream } from '../whole.ts'
import { noText } from '../text/plain-text.ts'
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

/**
 * Vertex AI's answers to a series of requests. No client speaks it.
 * https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api
 */
export const geminiPredict = withoutStream(gemini, {
  isAnswer: ({ lens }) => lens?.type('answers') === 'array',
  readUsage: readPredictUsage
})

/** Sums what stands beside each vector. Nothing in such an answer is a text that somebody else wrote. */
function readPredictUsage({ data }: Payload): ReportedUsage {
  const found = [...data.toString('latin1').matchAll(/"(?:token_count|promptTokenCount)"\s*:\s*(-?[\d.eE+]+)/g)]
  if (found.length === 0) return undefined
  const counts = new Counts()
  const prompt = found.reduce((sum, [, count]) => sum + (counts.of(Number(count)) ?? 0), 0)
  return account(counts, { prompt, completion: 0 })
}
