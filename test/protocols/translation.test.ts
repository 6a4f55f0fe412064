// What holds for every pair of protocols: a stream comes to the same as the whole, and what is carried comes back as it was.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { messagesCodec } from '../../core/protocols/anthropic/codec.ts'
import type { ModelRequest } from '../../core/protocols/canonical/request.ts'
import { emptyRequest } from '../../core/protocols/canonical/request.ts'
import { Losses } from '../../core/protocols/canonical/losses.ts'
import type { Codec } from '../../core/protocols/canonical/codec.ts'
import { geminiCodec } from '../../core/protocols/gemini/codec.ts'
import { responsesCodec } from '../../core/protocols/openai-responses/codec.ts'
import { chatCodec } from '../../core/protocols/openai-chat/codec.ts'
import { Asked, translateAnswer } from '../../core/protocols/translation.ts'
import type { AnswerPlan } from '../../core/protocols/translation.ts'
import { answerHead, answers, readStream, requests, streamOf, translateStream } from '../kit/conversations.ts'
import type { Means } from '../kit/conversations.ts'

const codecs: Readonly<Record<string, { codec: Codec; means: Means }>> = {
  chat: { codec: chatCodec, means: { candidates: true, images: true } },
  messages: { codec: messagesCodec, means: { proofs: 'anthropic', refusals: false } },
  gemini: { codec: geminiCodec, means: { proofs: 'gemini', refusals: false, candidates: true, images: true, asksForThoughts: true } },
  responses: { codec: responsesCodec, means: { proofs: 'openai', images: true, strict: false, stop: false } }
}
const runs = { numRuns: process.env['SLUICE_LONG'] === '1' ? 20_000 : 150 }

/** Whatever a client asks of nothing in particular. */
function planOf(client: Codec, upstream: Codec): AnswerPlan {
  const request = new Losses(client.conversation, client.capabilities.asks)
  const body = client.encodeRequest(simplest, { model: 'm', traits: {} }, request)
  return new Asked(client, body, { model: 'm', streaming: true }).for(upstream, { model: 'm', traits: {} }).answer
}

const simplest: ModelRequest = { ...emptyRequest('public-model', true), turns: [{ role: 'user', parts: [{ type: 'text', text: 'Hello' }] }] }

for (const [upstreamName, { codec: upstream, means }] of Object.entries(codecs)) {
  t.test(`what ${upstreamName} streams is what it answers whole`, async (t) => {
    t.doesNotThrow(() => fc.assert(fc.property(answers(means), (answer) => {
      deepStrictEqual(readStream(upstream, streamOf(upstream, answer)), upstream.decodeAnswer(upstream.encodeAnswer(answer, answerHead), answerHead.id))
    }), runs))
  })

  for (const [clientName, { codec: client }] of Object.entries(codecs)) {
    if (client === upstream) continue
    t.test(`a ${clientName} client of a ${upstreamName} channel gets the same streamed and whole`, async (t) => {
      const plan = planOf(client, upstream)
      t.doesNotThrow(() => fc.assert(fc.property(answers(means), (answer) => {
        const { body } = translateAnswer(plan, upstream.encodeAnswer(answer, answerHead), answerHead)
        const stream = translateStream(plan, streamOf(upstream, answer))
        deepStrictEqual(readStream(client, stream), client.decodeAnswer(body, answerHead.id))
      }), runs))
    })
  }

  t.test(`a request written for ${upstreamName} reads as it was`, async (t) => {
    t.doesNotThrow(() => fc.assert(fc.property(requests({ ...means, reasoning: means.proofs !== undefined }), (request) => {
      const losses = new Losses(upstream.conversation, upstream.capabilities.asks)
      const body = upstream.encodeRequest(request, { model: 'm', traits: { sampling: 'both' } }, losses)
      const read = upstream.decodeRequest(body, { model: request.model, streaming: request.streaming }, losses)
      deepStrictEqual(read, request)
      deepStrictEqual(JSON.stringify(upstream.encodeRequest(read, { model: 'm', traits: { sampling: 'both' } }, losses)), JSON.stringify(body))
    }), runs))
  })
}
