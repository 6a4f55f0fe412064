// What holds for every pair of protocols: a stream comes to the same as the whole, and what is carried comes back as it
// was.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { messagesCodec } from '../../core/protocols/anthropic/codec.ts'
import type { ModelRequest } from '../../core/protocols/canonical/request.ts'
import { emptyRequest } from '../../core/protocols/canonical/request.ts'
import { Losses } from '../../core/protocols/canonical/losses.ts'
import type { Codec } from '../../core/protocols/canonical/codec.ts'
import { anthropic } from '../../core/protocols/anthropic/protocol.ts'
import { gemini } from '../../core/protocols/gemini/protocol.ts'
import { openaiChat } from '../../core/protocols/openai-chat/protocol.ts'
import { openaiResponses } from '../../core/protocols/openai-responses/protocol.ts'
import type { JsonObject } from '../../core/protocols/object.ts'
import type { Protocol } from '../../core/protocols/protocol.ts'
import { geminiCodec } from '../../core/protocols/gemini/codec.ts'
import { responsesCodec } from '../../core/protocols/openai-responses/codec.ts'
import { chatCodec } from '../../core/protocols/openai-chat/codec.ts'
import { Asked, translateAnswer } from '../../core/protocols/translation/translation.ts'
import type { AnswerPlan } from '../../core/protocols/translation/translation.ts'
import { answerHead, answers, readStream, requests, streamOf, translateStream } from '../kit/conversations.ts'
import type { Means } from '../kit/conversations.ts'

const codecs: Readonly<Record<string, { codec: Codec; protocol: Protocol; means: Means }>> = {
  chat: { codec: chatCodec, protocol: openaiChat, means: { candidates: true, images: true } },
  messages: { codec: messagesCodec, protocol: anthropic, means: { proofs: 'anthropic', refusals: false } },
  gemini: {
    codec: geminiCodec,
    protocol: gemini,
    means: { proofs: 'gemini', refusals: false, candidates: true, images: true, asksForThoughts: true }
  },
  responses: {
    codec: responsesCodec,
    protocol: openaiResponses,
    means: { proofs: 'openai', images: true, strict: false, stop: false }
  }
}
const runs = { numRuns: process.env['SLUICE_LONG'] === '1' ? 20_000 : 80 }

/** Whatever a client asks of nothing in particular. */
function planOf(client: Codec, upstream: Codec): AnswerPlan {
  const request = new Losses(client.conversation, client.capabilities.asks)
  const body = client.encodeRequest(simplest, { model: 'm', traits: {} }, request)
  return new Asked(client, body, { model: 'm', streaming: true }).for(upstream, { model: 'm', traits: {} }).answer
}

const simplest: ModelRequest = {
  ...emptyRequest('public-model', true),
  turns: [{ role: 'user', parts: [{ type: 'text', text: 'Hello' }] }]
}

function parsed(value: unknown): unknown {
  return parsedText(JSON.stringify(value))
}

function parsedText(text: string): unknown {
  return JSON.parse(text)
}

function collected(protocol: Protocol, payloads: readonly unknown[]): unknown {
  const collector = protocol.collect()
  for (const payload of payloads) collector.add(payload)
  return parsed(collector.result())
}

/**
 * Without the order of members, and without what a stream says in another way: no content is empty content where there
 * are calls, and no part an empty text.
 */
function said(answer: unknown): unknown {
  const text = JSON.stringify(answer, (key, value: unknown) => {
    if (key === 'content' && value === '') return null
    if (key === 'parts' && JSON.stringify(value) === '[{"text":""}]') return []
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value
  })
  return JSON.parse(text)
}

/**
 * Without what protocols say by default and others do not: whether schemas are to be followed to the letter, and
 * thoughts to be shown.
 */
function carried(request: ModelRequest): ModelRequest {
  return {
    ...request,
    reasoning: { ...request.reasoning, visible: undefined },
    tools: request.tools.map((tool) => ({ ...tool, strict: undefined }))
  }
}

for (const [upstreamName, { codec: upstream, protocol, means }] of Object.entries(codecs)) {
  t.test(`what ${upstreamName} streams is what it answers whole`, async (t) => {
    t.doesNotThrow(() =>
      fc.assert(
        fc.property(answers(means), (answer) => {
          deepStrictEqual(
            readStream(upstream, streamOf(upstream, answer)),
            upstream.decodeAnswer(upstream.encodeAnswer(answer, answerHead), answerHead.id)
          )
        }),
        runs
      )
    )
  })

  t.test(`the events of ${upstreamName} put together are the whole, and the other way round`, async (t) => {
    t.doesNotThrow(() =>
      fc.assert(
        fc.property(answers({ ...means, proofs: undefined }), (answer) => {
          const whole = parsed(upstream.encodeAnswer(answer, answerHead))
          deepStrictEqual(
            said(
              collected(
                protocol,
                streamOf(upstream, answer).map((event) => event.json())
              )
            ),
            said(whole)
          )
          deepStrictEqual(said(collected(protocol, protocol.chunksOf(whole).map(parsedText))), said(whole))
        }),
        runs
      )
    )
  })

  for (const [clientName, { codec: client }] of Object.entries(codecs)) {
    if (client === upstream) continue
    t.test(`a ${clientName} client of a ${upstreamName} channel gets the same streamed and whole`, async (t) => {
      const plan = planOf(client, upstream)
      t.doesNotThrow(() =>
        fc.assert(
          fc.property(answers(means), (answer) => {
            const { body } = translateAnswer(plan, upstream.encodeAnswer(answer, answerHead), answerHead)
            const stream = translateStream(plan, streamOf(upstream, answer))
            deepStrictEqual(readStream(client, stream), client.decodeAnswer(body, answerHead.id))
          }),
          runs
        )
      )
    })
  }

  for (const [clientName, { codec: client, means: own }] of Object.entries(codecs)) {
    if (client === upstream) continue
    t.test(`what a ${clientName} client asks and ${upstreamName} can carry arrives as it was asked`, async (t) => {
      const both: Means = {
        reasoning: false,
        images: true,
        ...((own.stop === false || means.stop === false) && { stop: false })
      }
      t.doesNotThrow(() =>
        fc.assert(
          fc.property(requests(both), (request) => {
            const body = parsed(
              client.encodeRequest(
                request,
                { model: 'm', traits: { sampling: 'both' } },
                new Losses(client.conversation, client.capabilities.asks)
              )
            ) as JsonObject
            const { body: sent, dropped } = new Asked(client, body, {
              model: 'public-model',
              streaming: request.streaming
            }).for(upstream, { model: 'm', traits: { sampling: 'both' } })
            deepStrictEqual(dropped, [])
            const read = upstream.decodeRequest(
              parsed(sent) as JsonObject,
              { model: request.model, streaming: request.streaming },
              new Losses(upstream.conversation, upstream.capabilities.asks)
            )
            deepStrictEqual(carried(read), carried(request))
          }),
          runs
        )
      )
    })
  }

  t.test(`a request written for ${upstreamName} reads as it was`, async (t) => {
    t.doesNotThrow(() =>
      fc.assert(
        fc.property(requests({ ...means, reasoning: means.proofs !== undefined }), (request) => {
          const losses = new Losses(upstream.conversation, upstream.capabilities.asks)
          const body = upstream.encodeRequest(request, { model: 'm', traits: { sampling: 'both' } }, losses)
          const read = upstream.decodeRequest(body, { model: request.model, streaming: request.streaming }, losses)
          deepStrictEqual(read, request)
          deepStrictEqual(
            JSON.stringify(upstream.encodeRequest(read, { model: 'm', traits: { sampling: 'both' } }, losses)),
            JSON.stringify(body)
          )
        }),
        runs
      )
    )
  })
}
