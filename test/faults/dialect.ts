// What upstreams of every protocol say when they are well and when not, and clients of every protocol that ask them.
import { Message } from '../../core/contract/message.ts'
import type { ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import type { Codec } from '../../core/protocols/canonical/codec.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { answerHead, readStream, streamOf } from '../kit/conversations.ts'
import type { TestGateway } from '../kit/gateway.ts'
import { readEvents } from '../kit/sse.ts'

/** What upstreams answer. */
export const text = 'All is 漢 well 😀.'
const answer: ModelAnswer = {
  id: 'u',
  candidates: [{ parts: [{ type: 'text', text }], finish: { reason: 'stop' } }],
  usage: { input: 11, cached_input: 0, cache_write: 0, output: 7, reasoning: 0 }
}
/** The protocols that conversations are translated between. */
export const names = Object.keys(codecs) as CodecName[]
/** The credential of channels, which upstreams repeat in their errors. */
export const secret = 'upstream-secret-of-vendor'
/** What they say when they refuse. */
export const said = `Overloaded, says the one with ${secret}.`

/** What an upstream of a protocol sends when all is well, whole and event by event, and when it refuses. */
export interface Dialect {
  whole: string
  events: string[]
  error: string
}

function dialectOf(name: CodecName): Dialect {
  const codec: Codec = codecs[name]
  const error = {
    'openai-chat': { error: { message: said } },
    'openai-responses': { type: 'error', code: 'x', message: said },
    anthropic: { type: 'error', error: { type: 'overloaded_error', message: said } },
    gemini: { error: { code: 503, message: said, status: 'UNAVAILABLE' } }
  }[name]
  return {
    whole: JSON.stringify(codec.encodeAnswer(answer, answerHead)),
    events: streamOf(codec, answer).map((event) => event.bytes.toString()),
    error: JSON.stringify(error)
  }
}
export const dialects = Object.fromEntries(names.map((name) => [name, dialectOf(name)])) as Record<CodecName, Dialect>

const turns = [{ role: 'user', content: 'Hi' }]

/** A request of a client of this protocol, in its own words. */
export function ask(local: TestGateway, client: CodecName, model: string, stream: boolean): Promise<ReceivedReply> {
  switch (client) {
    case 'openai-chat':
      return local.ask({ path: '/v1/chat/completions', body: { model, stream, messages: turns } })
    case 'openai-responses':
      return local.ask({ path: '/v1/responses', body: { model, stream, store: false, input: 'Hi' } })
    case 'anthropic':
      return local.ask({ path: '/v1/messages', body: { model, stream, max_tokens: 99, messages: turns } })
    case 'gemini':
      return local.ask({
        path: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
        body: { contents: [{ parts: [{ text: 'Hi' }] }] }
      })
  }
}

/** What a client takes for a whole answer; undefined for an error, and for what has no end. */
export function heard(client: CodecName, reply: ReceivedReply, stream: boolean): string | undefined {
  if (reply.status !== 200) return undefined
  try {
    const { candidates } = stream
      ? readStream(
          codecs[client],
          readEvents(reply.body)
            .filter(({ data }) => data !== '')
            .map(({ data, event }) => Message.event(data, event ?? ''))
        )
      : (codecs[client] as Codec).decodeAnswer(reply.json(), 'id')
    return candidates[0]!.parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
  } catch {
    return undefined
  }
}
