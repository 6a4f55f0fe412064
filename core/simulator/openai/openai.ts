// OpenAI's API: its endpoints, how its clients send the key, and its refusals.
import type { Protocol } from '../endpoint.ts'
import type { RefusalDetails } from '../refusal.ts'
import { chat } from './chat.ts'
import { completions } from './completions.ts'
import { embeddings } from './embeddings.ts'
import { imageEndpoints } from './images.ts'
import { modelDetail, modelList } from './models.ts'
import { moderations } from './moderations.ts'
import { responseEndpoints } from './responses/responses.ts'
import { speech } from './speech.ts'
import { transcriptions, translations } from './transcriptions.ts'
import { videoEndpoints } from './videos.ts'

/** Claims every request that no other protocol claims. */
export const openai: Protocol = {
  endpoints: [
    chat,
    completions,
    embeddings,
    moderations,
    modelList,
    modelDetail,
    speech,
    transcriptions,
    translations,
    ...imageEndpoints,
    ...videoEndpoints,
    ...responseEndpoints
  ],
  claims: () => true,
  admits: (key, { authorization }) => authorization === `Bearer ${key}`,
  headers: (n) => ({ 'x-request-id': `req_${n}`, 'openai-organization': 'simulator', 'openai-version': '2020-10-01' }),
  envelope,
  failure
}

/** `{"error": {message, type, param, code}}`. All four members are always there. */
function envelope(status: number, message: string, { type = typeOf(status), param, code }: RefusalDetails): unknown {
  return { error: { message, type, param: param ?? null, code: code ?? null } }
}

function typeOf(status: number): string {
  return status >= 500 ? 'server_error' : status === 429 ? 'rate_limit_error' : 'invalid_request_error'
}

const usual = envelope(500, 'The simulator was told to give up here.', { code: 'simulated_error' })

function failure(given: unknown = usual): string {
  return `data: ${typeof given === 'string' ? given : JSON.stringify(given)}\n\n`
}
