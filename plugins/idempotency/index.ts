// Runs and charges a request only once, however often its client repeats it with the same Idempotency-Key.
import { definePlugin, GatewayError, sharedKey, slot } from '../../core/contract/contract.ts'
import type { Exchange, Reason, Reply } from '../../core/contract/contract.ts'
import { answered, caller } from '../../core/contract/slots.ts'
import type { KeptAnswer } from '../../core/store/answers.ts'
import { askedBy, idOf, keyOf } from './asked.ts'
import { AnswerRecording, RecordingRoom } from './recording.ts'

const rooms = sharedKey<RecordingRoom>('room')
const recording = slot('idempotency/recording').of<AnswerRecording>()

/** The Retry-After, in milliseconds, for a repetition of a request that is still running. */
const busyMs = 1000

export default definePlugin({
  name: 'idempotency',
  summary: 'Gives a request that is repeated with its `Idempotency-Key` the answer that it had, and charges it once.',
  options: {
    largest: {
      type: 'string',
      format: 'size',
      atLeast: '1KiB',
      atMost: '8MiB',
      default: '1MiB',
      description:
        'The largest answer that is kept. Of a larger one it is remembered that it was given: a repetition is refused, as it would be charged again.'
    }
  },
  rehearses: true,
  needs: [caller],
  setup({ largest }, { services: { answers, claims }, share, together, metrics }) {
    const room = share(rooms, () => new RecordingRoom(together('recordings', 1024)))
    const requests = metrics.counter({
      name: 'idempotent_requests_total',
      help: 'Requests with an Idempotency-Key, by what became of them.',
      labels: ['outcome']
    })
    const refuse = (error: GatewayError): never => {
      requests.add({ outcome: error.code })
      throw error
    }

    /** The stored answer; nothing when the request must be run. */
    const ask = async (exchange: Exchange<typeof caller>, key: string): Promise<Reply | void> => {
      const asked = await askedBy(exchange)
      const whose = exchange.get(caller)
      const { tenant } = whose
      const id = idOf(whose, key)
      const name = id.toString('latin1')
      if (exchange.rehearsal) return wouldReplay(await claims.look(name), await answers.find(id), asked)
      const claimed = claims.take(name, asked)
      const first = claimed instanceof Promise ? await claimed : claimed
      if (first && !first.equals(asked)) refuse(conflict())
      let answer: KeptAnswer | undefined
      try {
        answer = await answers.find(id)
      } catch (error) {
        if (!first) claims.leave(name)
        throw error
      }
      if (!first && answer) claims.leave(name)
      if (answer) {
        if (!answer.asked.equals(asked)) refuse(conflict())
        requests.add({ outcome: 'replayed' })
        return replay(answer)
      }
      if (first) refuse(inProgress())
      requests.add({ outcome: 'run' })
      const record = new AnswerRecording(room, tenant, largest)
      exchange.set(recording, record)
      let keeping: Promise<void> | undefined
      // A name that is left before its answer is there is free for a repetition, which finds nothing, and is run.
      const put = async (kept: KeptAnswer): Promise<void> => {
        try {
          await answers.put(id, tenant, kept, exchange.id)
        } finally {
          record.close()
          claims.leave(name)
        }
      }
      const keep = (): Promise<void> | undefined => {
        if (keeping) return keeping
        const kept = record.answer(asked, (header) => exchange.replyHeader(header))
        if (kept) keeping = put(kept)
        else claims.leave(name)
        return keeping
      }
      exchange.defer(keep)
      // An exchange that goes on without its client has answered that client long before its end. An answer that is
      // sent in pieces has only begun when its first byte is due, so it is stored at the end of the exchange.
      if (!exchange.streaming) exchange.showAfter(async () => (record.complete ? keep() : undefined))
    }

    return {
      onRequest(exchange) {
        const { headers, operation } = exchange.request
        const key = headers['idempotency-key']
        // Free operations need no protection against repetition. A session cannot be answered a second time.
        return key === undefined || !operation.metering || operation.metering.turns
          ? undefined
          : ask(exchange, keyOf(key))
      },
      onResponse: (exchange, response) =>
        exchange.find(answered) ? undefined : exchange.find(recording)?.begin(response)
    }
  }
})

/**
 * Gives the stored answer again.
 * @throws GatewayError when the answer was too large to be stored
 */
function replay({ status, type, headers: more, streamed, body }: KeptAnswer): Reply {
  if (!body) {
    throw new GatewayError(
      'idempotency_answer_gone',
      'The request with this Idempotency-Key was answered, and its answer was too large to be kept. With another key it is run again, and charged.',
      {
        reason: {
          by: 'repetition',
          what: 'the answer to the first request with this Idempotency-Key was too large to be kept',
          where: 'chain: idempotency.largest',
          remedy: 'raise it'
        }
      }
    )
  }
  const headers = [...Object.entries(more), ['content-type', type], ['Idempotency-Replayed', 'true']] as const
  return streamed ? { headers, stream: body } : { status, headers, body }
}

/**
 * What a request that is only explained would be answered, if it is a repetition.
 * @throws GatewayError what it would be refused with
 */
function wouldReplay(first: Buffer | undefined, answer: KeptAnswer | undefined, asked: Buffer): Reply | undefined {
  const before = first ?? answer?.asked
  if (!before) return undefined
  if (!before.equals(asked)) throw conflict()
  if (!answer) throw inProgress()
  return replay(answer)
}

function inProgress(): GatewayError {
  return new GatewayError('idempotency_in_progress', 'The request with this Idempotency-Key is still being answered.', {
    retryAfterMs: busyMs,
    reason: repetition('the first request with this Idempotency-Key is still being answered')
  })
}

function repetition(what: string): Reason {
  return { by: 'repetition', what, where: null, remedy: null }
}

function conflict(): GatewayError {
  return new GatewayError(
    'idempotency_conflict',
    'The Idempotency-Key was used for another request. Take a new one for each request.',
    { reason: repetition('this key sent another address or body with the same Idempotency-Key before') }
  )
}
