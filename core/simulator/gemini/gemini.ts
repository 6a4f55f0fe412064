// Gemini's API: its endpoints, how its clients send the key, and its refusals.
import type { Protocol } from '../endpoint.ts'
import { Refusal } from '../refusal.ts'
import type { RefusalDetails } from '../refusal.ts'
import { batchEmbedContents, embedContent } from './embed.ts'
import { countTokens, generateContent, streamGenerateContent } from './generate.ts'
import { modelDetail, modelList } from './models.ts'
import { errorOf } from './status.ts'

const verbs =
  /^\/v1(beta)?\/models\/.+:(generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)$/

/** Claims paths with Gemini's methods, and lists of models if the request comes from a client of Gemini. */
export const gemini: Protocol = {
  endpoints: [
    generateContent,
    streamGenerateContent,
    countTokens,
    embedContent,
    batchEmbedContents,
    modelList,
    modelDetail
  ],
  claims: (path, headers, query) =>
    path.startsWith('/v1beta/') ||
    verbs.test(path) ||
    (path.startsWith('/v1/models') &&
      headers['anthropic-version'] === undefined &&
      (headers['x-goog-api-key'] !== undefined || headers['x-goog-api-client'] !== undefined || query.has('key'))),
  admits(key, headers, query) {
    if ((headers['x-goog-api-key'] ?? query.get('key')) === key) return true
    const reason = {
      '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
      reason: 'API_KEY_INVALID',
      domain: 'googleapis.com'
    }
    throw new Refusal(400, 'API key not valid. Please pass a valid API key.', { more: { details: [reason] } })
  },
  headers: () => ({}),
  envelope(status, message, { more, listed }: RefusalDetails) {
    const body = { error: { ...errorOf(status, message), ...more } }
    return listed ? [body] : body
  },
  failure: (given = { error: errorOf(503, 'The simulator was told to give up here.') }) =>
    `data: ${typeof given === 'string' ? given : JSON.stringify(given)}\n\n`
}
