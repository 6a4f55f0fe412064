// Translates embeddings between clients of one protocol and upstreams of another. Vectors keep the digits that the
// upstream wrote.
import { geminiAsked, openaiAsked } from './asked.ts'
import type { Asked } from './asked.ts'
import { badAnswer, Untranslatable } from '../canonical/untranslatable.ts'
import { protocols } from '../index.ts'
import { makerFor } from './makers.ts'
import type { VectorModel } from './makers.ts'
import type { Maker } from './maker.ts'
import { asObject } from '../object.ts'
import type { Protocol } from '../protocol.ts'

/** The largest request that is translated, in bytes. No upstream takes more, and translating it would take long. */
const mostBytes = 4 * 1024 * 1024

const made: ReadonlySet<Protocol> = new Set([
  protocols['openai-embeddings'],
  protocols['gemini-embed'],
  protocols['gemini-predict'],
  protocols['bedrock-embed']
])

/** A request for the upstream, and the way back for its answer. */
export interface TranslatedEmbeddings {
  body: Buffer
  dropped: readonly string[]
  /**
   * `model`: the client's name of it.
   * @throws Untranslatable when the body is no answer
   */
  answer(body: Buffer, model: string): Buffer
}

/** Whether embeddings can be translated between the two protocols. */
export function translatesEmbeddings(client: Protocol, upstream: Protocol): boolean {
  const clients = [protocols['openai-embeddings'], protocols['gemini-embed']] as readonly Protocol[]
  return client !== upstream && clients.includes(client) && made.has(upstream)
}

/** @throws Untranslatable when the upstream cannot do what is asked for */
export function translateEmbeddings(
  client: Protocol,
  upstream: Protocol,
  body: Buffer,
  target: VectorModel
): TranslatedEmbeddings {
  if (body.length > mostBytes)
    throw new Untranslatable(
      'invalid_field',
      `The request is larger than ${mostBytes} bytes, the most that this model takes at one time.`,
      'input'
    )
  const request = asObject(JSON.parse(body.toString('utf8'))) ?? {}
  const asked = client === protocols['openai-embeddings'] ? openaiAsked(request) : geminiAsked(request)
  const maker = makerFor(upstream, target)!
  return {
    body: Buffer.from(JSON.stringify(maker.write(asked, target.model))),
    dropped: [...asked.dropped, ...unsaid(asked, maker)],
    answer(answer, name) {
      const { vectors, tokens } = maker.read(answer.toString('utf8'))
      const { length } = asked.texts
      if (vectors.length !== length) throw badAnswer(`The upstream gave ${vectors.length} vectors for ${length} texts.`)
      return Buffer.from(asked.answer(vectors, tokens, name))
    }
  }
}

/** What the client says of its texts and the upstream cannot be told. */
function unsaid({ texts, places }: Asked, { knows }: Maker): string[] {
  return (['purpose', 'title'] as const).flatMap((what) =>
    !knows[what] && texts.some((one) => one[what] !== undefined) ? [places[what]] : []
  )
}
