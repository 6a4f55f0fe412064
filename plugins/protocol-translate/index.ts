// Carries a request to a channel of another protocol and its answer back; the same protocol on both sides costs nothing.
import { Asked, codecOf, definePlugin, GatewayError, mayBeSealed, Message, parseJson, sharedKey, slot, StreamTranslation, translateAnswer, Untranslatable } from '../../core/contract/contract.ts'
import type { AnswerHead, AnswerTranslation, Attempt, Codec, Exchange, Keepsake, Mapper, Translated } from '../../core/contract/contract.ts'
import { caller } from '../../core/contract/slots.ts'
import { Keepsakes } from './keepsakes.ts'

/** What each attempt was sent, with what its answer is understood by, and what the client speaks. */
const sent = slot('protocol-translate/sent').of<Map<Attempt, Sent>>()

interface Sent extends Translated {
  speaks: Attempt['protocol']
  /** What the client asked, with what plugins above have changed in it. */
  request: Readonly<Record<string, unknown>>
}

const keepsakes = sharedKey<Keepsakes>('keepsakes')

export default definePlugin({
  name: 'protocol-translate',
  summary: 'Translates between the client\'s protocol and the channel\'s. When both are the same, bytes pass untouched and no stage is added.',
  options: {
    strict: {
      type: 'boolean',
      default: false,
      description: 'Refuses a request of which something would be left out on the way to another protocol, instead of naming it in `x-sluice-dropped`.'
    }
  },
  setup({ strict }, { share, catalogue }) {
    const kept = share(keepsakes, () => new Keepsakes())

    const translate = (exchange: Exchange, attempt: Attempt): void => {
      const [client, upstream] = pairOf(exchange, attempt)
      const speaks = attempt.bodyProtocol
      const request = requestOf(attempt.body)
      const asked = new Asked(client, request, { model: exchange.model, streaming: exchange.streaming })
      const tenant = exchange.find(caller)?.tenant ?? ''
      const found = new Map<string, Keepsake>()
      for (const call of asked.missing(upstream)) {
        const keepsake = kept.find(tenant, call)
        if (keepsake) found.set(call, keepsake)
      }
      const maxOutputTokens = catalogue.models.get(exchange.model)?.maxOutputTokens
      const target = { model: attempt.upstreamModel, traits: { ...(maxOutputTokens !== undefined && { maxOutputTokens }) } }
      const translated = asked.for(upstream, target, found)
      if (strict && translated.dropped.length > 0) {
        const param = translated.dropped[0]!
        throw new GatewayError('unsupported_parameter', `The model cannot be told \`${translated.dropped.join('`, `')}\`, and this gateway leaves nothing out.`, { param })
      }
      attempt.body.replace(Buffer.from(JSON.stringify(translated.body)))
      attempt.bodyProtocol = attempt.protocol
      if (!exchange.find(sent)) exchange.set(sent, new Map())
      exchange.find(sent)!.set(attempt, { ...translated, speaks, request })
    }

    const keep = (exchange: Exchange, { kept: made }: AnswerTranslation): void => {
      const tenant = exchange.find(caller)?.tenant ?? ''
      for (const [call, keepsake] of made) kept.keep(tenant, call, keepsake)
    }

    return {
      onAttempt(exchange, attempt) {
        if (!attempt.translated) return unsealed(attempt)
        try {
          translate(exchange, attempt)
        } catch (error) {
          throw shown(error)
        }
      },

      onResponse(exchange, { attempt, streaming }) {
        const translated = attempt && exchange.find(sent)?.get(attempt)
        if (!translated) return
        if (translated.dropped.length > 0) exchange.setHeader('x-sluice-dropped', translated.dropped.join(', '))
        const head = headOf(exchange, translated.request)
        return streaming ? streamed(exchange, translated, head, keep) : whole(exchange, translated, head, keep)
      }
    }
  }
})

/** Signatures that the gateway wrapped for a client of this protocol are not for an upstream that gets the request as it came. */
function unsealed({ protocol, body }: Attempt): void {
  const codec = codecOf(protocol)
  if (!codec?.withoutSealed || !mayBeSealed(body.original.bytes)) return
  const changed = codec.withoutSealed(requestOf(body))
  if (changed) body.set(changed.key, changed.value)
}

type Keep = (exchange: Exchange, translation: AnswerTranslation) => void

function whole(exchange: Exchange, { answer, speaks }: Sent, head: AnswerHead, keep: Keep): Mapper {
  return {
    speaks,
    map(message, emit) {
      try {
        const translated = translateAnswer(answer, parseJson(message.data.toString('utf8')), head)
        keep(exchange, translated)
        emit(new Message('json', Buffer.from(JSON.stringify(translated.body))))
      } catch (error) {
        throw shown(error)
      }
    }
  }
}

function streamed(exchange: Exchange, { answer, speaks }: Sent, head: AnswerHead, keep: Keep): Mapper {
  let out: (message: Message) => void = () => {}
  const translation = new StreamTranslation(answer, head, (data, name) => out(Message.event(data, name)))
  return {
    speaks,
    map(message, emit) {
      if (message.kind !== 'event') return
      out = emit
      try {
        translation.push(message)
      } catch (error) {
        throw shown(error)
      }
    },
    end(complete, emit) {
      if (!complete) return
      out = emit
      try {
        translation.end()
      } catch (error) {
        throw shown(error)
      }
      keep(exchange, translation)
    }
  }
}

/** @throws GatewayError when there is no translation between the two */
function pairOf({ request }: Exchange, attempt: Attempt): [client: Codec, upstream: Codec] {
  const [client, upstream] = [codecOf(attempt.bodyProtocol), codecOf(attempt.protocol)]
  if (client && upstream) return [client, upstream]
  throw new GatewayError('protocol_mismatch', `This model cannot be used with the endpoint ${request.operation.endpoint}.`, { param: 'model' })
}

/** As far as it has been changed by now: a text that was masked stays masked. */
function requestOf(body: Attempt['body']): Readonly<Record<string, unknown>> {
  return parseJson(Buffer.concat(body.render() as readonly Buffer[]).toString('utf8')) as Readonly<Record<string, unknown>>
}

function headOf(exchange: Exchange, request: Readonly<Record<string, unknown>>): AnswerHead {
  const options = request['stream_options'] as { include_usage?: unknown } | null | undefined
  return {
    id: exchange.id.replaceAll('-', ''),
    created: Math.floor(exchange.receivedAt / 1000),
    model: exchange.requestedModel,
    request,
    usage: options?.include_usage === true
  }
}

/** What translation throws is an answer for the client; anything else is a mistake of ours. */
function shown(error: unknown): unknown {
  return error instanceof Untranslatable ? new GatewayError(error.code, error.message, { param: error.param }) : error
}
