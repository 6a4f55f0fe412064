// Translates embeddings for channels of another protocol, which has nothing in common with translating conversations.
import { Message, slot, translateEmbeddings } from '../../core/contract/contract.ts'
import type { Attempt, Exchange, Mapper, TranslatedEmbeddings } from '../../core/contract/contract.ts'

/** The translated request of each attempt, with the client's protocol. */
const sent = slot('protocol-translate/embeddings').of<
  Map<Attempt, { translated: TranslatedEmbeddings; speaks: Attempt['protocol'] }>
>()

/**
 * Translates the request for the attempt's channel. Returns the members that it leaves out.
 * @throws Untranslatable
 */
export function sendEmbeddings(exchange: Exchange, attempt: Attempt): readonly string[] {
  const speaks = attempt.bodyProtocol
  const translated = translateEmbeddings(
    speaks,
    attempt.protocol,
    Buffer.concat(attempt.body.render() as readonly Buffer[]),
    { model: attempt.upstreamModel, vectors: attempt.channel.traits?.vectors }
  )
  attempt.body.replace(translated.body)
  attempt.bodyProtocol = attempt.protocol
  if (!exchange.find(sent)) exchange.set(sent, new Map())
  exchange.find(sent)!.set(attempt, { translated, speaks })
  return translated.dropped
}

/**
 * The stage that translates the answer back; undefined when the attempt's request was not translated here. `shown`:
 * turns a thrown error into the one to throw.
 */
export function embeddingsBack(
  exchange: Exchange,
  attempt: Attempt,
  shown: (error: unknown) => unknown
): Mapper | undefined {
  const found = exchange.find(sent)?.get(attempt)
  if (!found) return undefined
  const { translated, speaks } = found
  return {
    speaks,
    map(message, emit) {
      try {
        emit(new Message('json', translated.answer(message.data, exchange.requestedModel)))
      } catch (error) {
        throw shown(error)
      }
    }
  }
}
