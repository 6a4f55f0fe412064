// Reads and writes probabilities of tokens in the form that OpenAI's protocols share.
import { asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { TokenLogprob } from './answer.ts'

type Alone = Omit<TokenLogprob, 'top'>

/** Undefined when there are none. */
export function readTokens(tokens: unknown): TokenLogprob[] | undefined {
  const made = asObjects(tokens).map((token) => ({
    ...readToken(token),
    top: asObjects(token['top_logprobs']).map(readToken)
  }))
  return made.length > 0 ? made : undefined
}

function readToken({ token, logprob, bytes }: JsonObject): Alone {
  return {
    token: asText(token),
    logprob: typeof logprob === 'number' ? logprob : 0,
    ...(bytes !== undefined && { bytes: readBytes(bytes) })
  }
}

function readBytes(bytes: unknown): number[] | null {
  return Array.isArray(bytes) ? (bytes as unknown[]).filter((byte) => typeof byte === 'number') : null
}

export function writeTokens(tokens: readonly TokenLogprob[]): unknown[] {
  return tokens.map(({ top, ...token }) => ({ ...writeToken(token), top_logprobs: top.map(writeToken) }))
}

function writeToken({ token, logprob, bytes }: Alone): object {
  return { token, logprob, bytes: bytes ?? null }
}
