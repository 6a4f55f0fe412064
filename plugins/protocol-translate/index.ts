// Translates a request for a channel of another protocol, and its answer back. With the same protocol on both sides it
// costs nothing.
import {
  codecNameOf,
  definePlugin,
  GatewayError,
  mayBeSealed,
  Message,
  planOf,
  sealedMembers,
  sharedKey,
  slot,
  StreamTranslation,
  translatesEmbeddings,
  translateWhole,
  Untranslatable,
  upstreamCodecNameOf,
  Watch
} from '../../core/contract/contract.ts'
import type {
  AnswerHead,
  AnswerTask,
  AnswerTranslation,
  Attempt,
  Awaitable,
  Exchange,
  Mapper,
  RequestTask,
  Slot,
  TranslatedAnswer,
  TranslatedRequest
} from '../../core/contract/contract.ts'
import { caller, dropped } from '../../core/contract/slots.ts'
import { countBack, countedFor } from './count.ts'
import { isInvolved } from './effort.ts'
import { embeddingsBack, sendEmbeddings } from './embeddings.ts'
import { Keepsakes } from './keepsakes.ts'
import { tooInvolved, Translator } from './translator.ts'
import type { Asker } from './translator.ts'

/** The slot `dropped`, with the type needed to fill it. */
const unsaid = dropped as Slot<Map<object, readonly string[]>>

/** For each attempt whose request was translated: what is needed to translate its answer. */
const sent = slot('protocol-translate/sent').of<Map<Attempt, Sent>>()

interface Sent {
  task: AnswerTask
  speaks: Attempt['protocol']
  /** The name of the channel. */
  channel: string
  /** The members of the request that the answer repeats, as plugins above have changed them. */
  repeated: Readonly<Record<string, unknown>>
}

/** Requests may bring back in these what was sealed. */
const sealedIn = new Watch(sealedMembers)

const translators = sharedKey<Translator>('translator')

export default definePlugin({
  name: 'protocol-translate',
  summary:
    "Translates between the client's protocol and the channel's. When both are the same, bytes pass untouched and no stage is added.",
  options: {
    strict: {
      type: 'boolean',
      default: false,
      description:
        'Refuses a request of which something would be left out on the way to another protocol, instead of naming it in `x-sluice-dropped`.'
    }
  },
  rehearses: true,
  provides: [dropped],
  setup({ strict }, { share, together, catalogue, metrics, services }) {
    const kept = new Keepsakes(services.cache)
    const translator = share(
      translators,
      () => new Translator(together('waiting', 1024)),
      (over) => over.close()
    )

    const finishes = metrics.counter({
      name: 'unknown_finish_reasons_total',
      help: 'Translated answers that ended for a reason that is in no table, by channel.',
      labels: ['channel']
    })

    /**
     * Notes the members that are left out.
     * @throws GatewayError when `strict` is set and there are any
     */
    const lose = (exchange: Exchange, attempt: Attempt, members: readonly string[]): void => {
      if (members.length === 0) return
      if (!exchange.find(unsaid)) exchange.set(unsaid, new Map())
      exchange.find(unsaid)!.set(attempt, members)
      if (!strict) return
      const param = members[0]!
      throw new GatewayError(
        'unsupported_parameter',
        `The model cannot be told \`${members.join('`, `')}\`, and this gateway leaves nothing out.`,
        {
          param,
          reason: {
            by: 'plugin',
            what: `${members.join(', ')} would be left out in translation`,
            where: 'chain: protocol-translate.strict',
            remedy: 'turn it off, or use a channel that can be told them'
          }
        }
      )
    }

    const translate = (exchange: Exchange, attempt: Attempt): Awaitable<void> => {
      const speaks = attempt.bodyProtocol
      if (translatesEmbeddings(speaks, attempt.protocol))
        return lose(exchange, attempt, sendEmbeddings(exchange, attempt))
      const pair = pairOf(exchange, attempt)
      if (pair.client === pair.upstream) {
        // The upstream wants the same words in another frame.
        attempt.bodyProtocol = attempt.protocol
        return unsealed(translator, exchange, attempt)
      }
      const tenant = tenantOf(exchange)
      const find = (calls: readonly string[]): ReturnType<Keepsakes['find']> => kept.find(tenant, calls)
      const maxOutputTokens = catalogue.models.get(attempt.model)?.maxOutputTokens
      const task: RequestTask = {
        ...pair,
        head: { model: exchange.model, streaming: exchange.streaming },
        target: {
          model: attempt.upstreamModel,
          traits: {
            ...attempt.channel.traits,
            ...(maxOutputTokens !== undefined && { maxOutputTokens }),
            ...(!mayAsk(exchange, attempt) && { streamOptions: false })
          }
        }
      }
      const put = (translated: TranslatedRequest): void => {
        const { body, dropped: left, repeated, ...answer } = translated
        lose(exchange, attempt, left)
        attempt.body.replace(Buffer.from(body.buffer, body.byteOffset, body.byteLength))
        attempt.bodyProtocol = attempt.protocol
        if (!exchange.find(sent)) exchange.set(sent, new Map())
        exchange.find(sent)!.set(attempt, { task: answer, speaks, repeated, channel: attempt.channel.name })
      }
      // The request as plugins have changed it so far, so that a masked text stays masked.
      const translated = translator.translate(attempt.body.render() as readonly Buffer[], task, find, askerOf(exchange))
      return translated instanceof Promise ? translated.then(put) : put(translated)
    }

    const keep: Keep = (exchange, { channel }, { kept: made, unknownFinishes: unknown }) => {
      const tenant = tenantOf(exchange)
      for (const [call, keepsake] of made) kept.put(tenant, call, keepsake)
      if (unknown.length > 0) finishes.add({ channel }, unknown.length)
    }

    return {
      onRequest: (exchange) => countedFor(exchange, catalogue),

      onAttempt(exchange, attempt) {
        try {
          const done = attempt.translated ? translate(exchange, attempt) : unsealed(translator, exchange, attempt)
          return done instanceof Promise
            ? done.catch((error: unknown) => Promise.reject(unable(error) as Error))
            : undefined
        } catch (error) {
          throw unable(error)
        }
      },

      onResponse(exchange, { attempt, streaming }) {
        if (!attempt) return
        const counted = countBack(exchange, attempt)
        if (counted) return counted
        const members = exchange.find(unsaid)?.get(attempt)
        if (members) exchange.setHeader('x-sluice-dropped', members.join(', '))
        const translated = exchange.find(sent)?.get(attempt)
        if (!translated) return embeddingsBack(exchange, attempt, shown)
        const head = headOf(exchange, translated.repeated)
        return streaming
          ? streamed(exchange, translated, head, keep)
          : whole(exchange, translated, head, keep, translator)
      }
    }
  }
})

/** The tenant of an exchange. Without keys all are one. */
function tenantOf(exchange: Exchange): string {
  return exchange.find(caller)?.tenant ?? ''
}

/** The tenant and the signal that decide when a translation is done. */
function askerOf(exchange: Exchange): Asker {
  return { tenant: tenantOf(exchange), left: exchange.signal }
}

/**
 * Whether the usage of a stream may be asked for: the upstream's protocol needs no member for that, or this channel
 * takes it.
 */
function mayAsk({ streaming, body }: Exchange, attempt: Attempt): boolean {
  const ask = streaming ? attempt.protocol.askForUsage(body.lens) : undefined
  return !ask || attempt.mayAdd(ask.key)
}

/**
 * For a request that is not translated: removes signatures that the gateway wrapped for a client of this protocol,
 * which the upstream would not understand.
 */
function unsealed(translator: Translator, exchange: Exchange, { protocol, body }: Attempt): Awaitable<void> {
  const name = codecNameOf(protocol)
  const { lens, bytes } = body.original
  // Nearly no body has a member for any, and a search goes through all of it.
  if (!name || !lens.mayMention(sealedIn) || !mayBeSealed(bytes)) return undefined
  const put = (changed: { key: string; json: string } | undefined): void =>
    void (changed && body.setRaw(changed.key, changed.json))
  const changed = translator.unseal(body.render() as readonly Buffer[], name, askerOf(exchange))
  return changed instanceof Promise ? changed.then(put) : put(changed)
}

type Keep = (exchange: Exchange, sent: Sent, translation: AnswerTranslation) => void

function whole(exchange: Exchange, sent: Sent, head: AnswerHead, keep: Keep, translator: Translator): Mapper {
  const { task, speaks } = sent
  let left: AbortController | undefined
  const made = (translated: TranslatedAnswer): Message => {
    keep(exchange, sent, translated)
    const { body } = translated
    return new Message('json', Buffer.from(body.buffer, body.byteOffset, body.byteLength))
  }
  return {
    speaks,
    mapBeside({ data }) {
      left = new AbortController()
      return translator
        .answerBeside(data, task, head, { ...askerOf(exchange), left: left.signal })
        ?.then(made, (error: unknown) => Promise.reject(shown(error) as Error))
    },
    map({ data }, emit) {
      try {
        emit(made(translateWhole(data, task, head)))
      } catch (error) {
        throw shown(error)
      }
    },
    end(complete) {
      if (!complete) left?.abort()
    }
  }
}

function streamed(exchange: Exchange, sent: Sent, head: AnswerHead, keep: Keep): Mapper {
  const { task, speaks } = sent
  let out: (message: Message) => void = () => {}
  const translation = new StreamTranslation(planOf(task), head, (data, name) => out(Message.event(data, name)))
  return {
    speaks,
    map(message, emit) {
      if (message.kind !== 'event') return
      if (isInvolved(message.data)) throw tooInvolved('An event of the upstream')
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
      keep(exchange, sent, translation)
    }
  }
}

/**
 * The two formats to translate between.
 * @throws GatewayError when there is no such translation
 */
function pairOf({ request }: Exchange, attempt: Attempt): Pick<RequestTask, 'client' | 'upstream'> {
  const [client, upstream] = [codecNameOf(attempt.bodyProtocol), upstreamCodecNameOf(attempt.protocol)]
  if (client && upstream) return { client, upstream }
  throw new GatewayError(
    'protocol_mismatch',
    `This model cannot be used with the endpoint ${request.operation.endpoint}.`,
    { param: 'model' }
  )
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

/** Marks an error so that a channel of another protocol, or of the client's own, may be tried. */
function unable(error: unknown): unknown {
  const told = shown(error)
  return told instanceof GatewayError
    ? new GatewayError(told.code, told.message, { ...told.details, elsewhere: true })
    : told
}

/** Errors of translation are answers for the client. Any other error is a bug of the gateway. */
function shown(error: unknown): unknown {
  return error instanceof Untranslatable ? new GatewayError(error.code, error.message, { param: error.param }) : error
}
