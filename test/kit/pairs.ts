// Translates requests and answers between protocols, for pairs such as `C→M`.
import { requestFeatures } from '../../core/protocols/canonical/features.ts'
import type { RequestFeature } from '../../core/protocols/canonical/features.ts'
import { Losses } from '../../core/protocols/canonical/losses.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { Message } from '../../core/contract/message.ts'
import {
  Asked,
  StreamTranslation,
  translateAnswer,
  Untranslatable
} from '../../core/protocols/translation/translation.ts'
import type { AnswerPlan, AnswerTranslation, Keepsake, Traits } from '../../core/protocols/translation/translation.ts'
import { answerHead } from './conversations.ts'

type Json = any

const protocols: Readonly<Record<string, CodecName>> = {
  C: 'openai-chat',
  R: 'openai-responses',
  M: 'anthropic',
  G: 'gemini'
}

/** The request to the upstream for a client's request. */
export interface Sent {
  body: Json
  dropped: string[]
  plan: AnswerPlan
}

/**
 * Translates a request. `C→M`: a client of chat completions and an upstream with Messages.
 * @throws Untranslatable
 */
export function sent(pair: string, body: Json, traits: Traits = {}, kept?: ReadonlyMap<string, Keepsake>): Sent {
  const [client, upstream] = pair.split('→').map((name) => codecs[protocols[name]!])
  const {
    body: made,
    dropped,
    answer
  } = new Asked(client!, body, { model: 'm', streaming: false }).for(upstream!, { model: 'up', traits }, kept)
  return { body: JSON.parse(JSON.stringify(made)), dropped, plan: answer }
}

/** Why a request is refused; undefined when it is translated. */
export function refusal(
  pair: string,
  body: Json,
  traits: Traits = {}
): Pick<Untranslatable, 'code' | 'param' | 'message'> | undefined {
  try {
    sent(pair, body, traits)
    return undefined
  } catch (error) {
    if (!(error instanceof Untranslatable)) throw error
    return { code: error.code, param: error.param, message: error.message }
  }
}

/** What a client's request asks for: by feature, the members that say so. */
export function wishesOf(client: string, body: Json): Record<string, string[]> {
  const { conversation, capabilities, decodeRequest } = codecs[protocols[client]!]
  const losses = new Losses(conversation, capabilities.asks)
  decodeRequest(body, { model: 'm', streaming: false }, losses)
  const wishes = (Object.keys(requestFeatures) as RequestFeature[]).map((feature) => {
    const one = losses.again()
    one.drop(feature)
    return [feature, one.dropped] as const
  })
  return Object.fromEntries(wishes.filter(([, members]) => members.length > 0))
}

/** The smallest request of each protocol whose answer shows everything. */
export const asking: Readonly<Record<string, Json>> = {
  C: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
  R: { model: 'm', input: 'Hi' },
  M: { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
  G: {
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } }
  }
}

/** Translates a whole answer. `M⇒C`: an upstream with Messages and a client of chat completions. */
export function answered(pair: string, answer: Json, plan = planOf(pair)): AnswerTranslation & { body: Json } {
  return translateAnswer(plan, answer, answerHead)
}

/**
 * Translates a streamed answer, for pairs as in {@link answered}.
 * @throws Untranslatable when the events are not a complete answer
 */
export function streamed(
  pair: string,
  events: readonly Json[],
  plan = planOf(pair)
): AnswerTranslation & { events: Json[] } {
  const seen: Json[] = []
  const translation = new StreamTranslation(plan, answerHead, (data) =>
    seen.push(data === '[DONE]' ? data : JSON.parse(data))
  )
  for (const event of events)
    translation.push(Message.event(typeof event === 'string' ? event : JSON.stringify(event), event.type))
  translation.end()
  const { kept, unknownFinishes } = translation
  return { events: seen, kept, unknownFinishes }
}

function planOf(pair: string): AnswerPlan {
  const [upstream, client] = pair.split('⇒')
  return sent(`${client}→${upstream}`, asking[client!]).plan
}
