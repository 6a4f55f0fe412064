// What becomes of requests, answers, streams and errors, member by member: every protocol reads in them, and every pair
// of protocols makes of them, what was written down and read through once. `SLUICE_RECORD=1` writes down what they make
// of them now.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { Losses } from '../../core/protocols/canonical/losses.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { AnswerText, Protocol, ShownError, TextEditor, TextPart } from '../../core/protocols/index.ts'
import { unsealRequest } from '../../core/protocols/translation/request-bytes.ts'
import {
  Asked,
  StreamTranslation,
  translateAnswer,
  Untranslatable
} from '../../core/protocols/translation/translation.ts'
import type { AnswerPlan, Traits } from '../../core/protocols/translation/translation.ts'
import { answerHead } from '../kit/conversations.ts'

type Json = Record<string, unknown>

/** One file: a request of a client, an answer of an upstream, whole or in events, or its errors, or errors of ours. */
interface Case {
  summary: string
  client?: CodecName
  body?: Json
  upstream?: CodecName
  answer?: Json
  events?: (Json | '[DONE]')[]
  /** What its upstream was asked, where a stream answers that. */
  request?: Json
  /** Bodies of which some are answers. */
  bodies?: unknown[]
  /** Bodies of errors, as upstreams of a protocol send them. */
  errors?: unknown[]
  /** Errors as a client of each protocol is shown them. */
  shown?: ShownError[]
  /** What its own protocol finds in it. */
  reads?: Json
  /** What every protocol makes of it; a request also for channels as they were some years ago. */
  becomes?: Json
}

const folder = join(import.meta.dirname, '../golden/translation/wire')
const names = Object.keys(codecs) as CodecName[]

/** Of a channel to an old model, which knows other members. */
const old: Traits = {
  maxTokensMember: 'max_tokens',
  developerRole: false,
  replaysReasoning: true,
  thinking: 'budget',
  sampling: 'both',
  jsonSchema: 'tool',
  prefill: true,
  thinks: false,
  fetchesUrls: true,
  maxOutputTokens: 4096
}

/** Requests of clients that want to see all there is. */
const asking: Readonly<Record<CodecName, Json>> = {
  'openai-chat': { model: 'm', n: 8, logprobs: true, messages: [{ role: 'user', content: 'Hi' }] },
  'openai-responses': {
    model: 'm',
    input: 'Hi',
    reasoning: { summary: 'auto' },
    include: ['message.output_text.logprobs', 'reasoning.encrypted_content']
  },
  anthropic: { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
  gemini: {
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } }
  }
}

function planOf(client: CodecName, upstream: CodecName): AnswerPlan {
  const body = { ...asking[client] }
  // Only some protocols have several answers and the likeliness of words.
  if (upstream !== 'openai-chat' && upstream !== 'gemini') for (const key of ['n', 'logprobs']) delete body[key]
  if (upstream === 'anthropic') delete body['include']
  return new Asked(codecs[client], body, { model: 'm', streaming: false }).for(codecs[upstream], {
    model: 'up',
    traits: {}
  }).answer
}

/** What comes out, or how it is refused. */
function made(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    if (!(error instanceof Untranslatable)) throw error
    return { refused: error.code, param: error.param ?? null, message: error.message }
  }
}

function requested(client: CodecName, body: Json, upstream: CodecName, traits: Traits): unknown {
  return made(() => {
    const { body: sent, dropped } = new Asked(codecs[client], body, { model: 'm', streaming: false }).for(
      codecs[upstream],
      { model: 'up', traits }
    )
    return { sent, dropped }
  })
}

function answered(upstream: CodecName, answer: Json, client: CodecName): unknown {
  return made(() => {
    const { body, kept, unknownFinishes } = translateAnswer(planOf(client, upstream), answer, answerHead)
    return { body, kept: [...kept], unknownFinishes }
  })
}

function streamed(upstream: CodecName, events: NonNullable<Case['events']>, client: CodecName): unknown {
  return made(() => {
    const told: unknown[] = []
    const translation = new StreamTranslation(planOf(client, upstream), answerHead, (data, event) => {
      told.push([event, data === '[DONE]' ? data : JSON.parse(data)])
    })
    for (const event of events) translation.push(messageOf(event))
    translation.end()
    return { told, kept: [...translation.kept], unknownFinishes: translation.unknownFinishes }
  })
}

/** An editor that marks every text, and writes down which it has seen. Arguments stay JSON. */
function marking(seen: unknown[]): TextEditor {
  return {
    skips: true,
    text(part) {
      seen.push(part)
      return marked(part)
    },
    end(block) {
      seen.push(['end', block])
      return block.kind === 'arguments' ? '' : '>'
    }
  }
}

const marked = ({ kind, text }: TextPart): string => (kind === 'arguments' ? text : `<${text.toUpperCase()}`)

const jsonOf = (data: string): unknown => (/^(?:\{|\[\{)/.test(data) ? JSON.parse(data) : data)

function edited(text: AnswerText, events: readonly Message[], seen: unknown[]): unknown {
  const editor = marking(seen)
  const shown = ({ event, data }: { event?: string; data: string }): unknown => [event ?? '', jsonOf(data)]
  const out = events.map((event) => {
    const told = text.event(event, editor)
    return told && { before: told.before.map(shown), data: told.data && jsonOf(told.data.toString()) }
  })
  return { out, last: text.end(editor).map(shown) }
}

/** The features that a request asks for, each with its first place and the members that ask for it. */
function asksOf(client: CodecName, body: Json): unknown {
  const { conversation, capabilities, decodeRequest } = codecs[client]
  const asks: ConstructorParameters<typeof Losses>[2] = new Map()
  return made(() => {
    decodeRequest(body, { model: 'm', streaming: false }, new Losses(conversation, capabilities.asks, asks))
    return Object.fromEntries([...asks].map(([feature, { first, names: members }]) => [feature, [first, ...members]]))
  })
}

function readsOf({ client, body, upstream, answer, bodies, events, request = {}, errors }: Case): Json {
  const protocol: Protocol = protocols[(client ?? upstream)!]
  if (errors) return { errors: errors.map((error) => protocol.readError(error)) }
  if (bodies)
    return {
      bodies: bodies.map((one) => {
        const message = new Message('json', Buffer.from(JSON.stringify(one)))
        return [protocol.isAnswer(message), protocol.readUsage(message) ?? null, protocol.answerBytes(one)]
      })
    }
  const seen: unknown[] = []
  if (body) {
    const fields: Json = structuredClone(body)
    const members = {
      json: (key: string) => structuredClone(fields[key]),
      set: (key: string, value: unknown) => void (fields[key] = value)
    }
    protocol.text!.prompt(members, (part) => {
      seen.push(part)
      // Arguments and some results have to stay JSON.
      return part.text.startsWith('{') ? JSON.stringify({ ...JSON.parse(part.text), seen: true }) : marked(part)
    })
    const unsealed = unsealRequest(Buffer.from(JSON.stringify(body)), client!)
    return { asks: asksOf(client!, body), seen, marked: fields, unsealed: unsealed ? JSON.parse(unsealed.json) : null }
  }
  if (answer) {
    const message = new Message('json', Buffer.from(JSON.stringify(answer)))
    return {
      isAnswer: protocol.isAnswer(message),
      usage: protocol.readUsage(message) ?? null,
      bytes: protocol.answerBytes(message.json()),
      chunks: made(() => protocol.chunksOf(answer).map(jsonOf)),
      marked: made(() => jsonOf(String(protocol.text!.answer().whole(message, marking(seen))))),
      seen
    }
  }
  const messages = events!.map(messageOf)
  const watch = protocol.watch(new Message('json', Buffer.from(JSON.stringify(request))).lens as never)
  const reader = protocol.usageReader?.()
  const collector = protocol.collect()
  for (const event of events!) if (event !== '[DONE]') collector.add(event)
  return {
    seen: messages.map((message) => [
      watch.see(message),
      watch.missing(message).map((one) => jsonOf(String(one))),
      watch.finished,
      watch.complete,
      (reader ? reader.read(message) : protocol.readUsage(message)) ?? null,
      protocol.answerBytes(message.data.toString() === '[DONE]' ? {} : message.json())
    ]),
    withoutUsage: messages.map((message) => jsonOf(String(protocol.withoutUsage(message)))),
    collected: collector.result() ?? null,
    marked: made(() => edited(protocol.text!.answer(), events!.map(messageOf), seen)),
    texts: seen
  }
}

function messageOf(event: Json | '[DONE]'): Message {
  return event === '[DONE]'
    ? Message.event(event, '')
    : Message.event(JSON.stringify(event), String(event['type'] ?? ''))
}

function shownTo(errors: readonly ShownError[], name: CodecName): unknown {
  const protocol: Protocol = protocols[name]
  return errors.map((error) => [protocol.errorBody(error), protocol.errorEvent(error, 3)])
}

function becomes({ client, body, upstream, answer, events, shown }: Case): Json {
  const all = names.flatMap((name): [string, unknown][] => {
    if (shown) return [[name, shownTo(shown, name)]]
    if (client && body)
      return [
        [name, requested(client, body, name, {})],
        [`${name}, old`, requested(client, body, name, old)]
      ]
    return [[name, events ? streamed(upstream!, events, name) : answered(upstream!, answer!, name)]]
  })
  return Object.fromEntries(all)
}

for (const file of readdirSync(folder)) {
  const path = join(folder, file)
  const kept = JSON.parse(readFileSync(path, 'utf8')) as Case
  t.test(`${file.slice(0, -5)}: ${kept.summary}`, (t) => {
    const plain = (value: Json): Json => JSON.parse(JSON.stringify(value)) as Json
    const reads = kept.shown ? {} : plain(readsOf(kept))
    const now = kept.errors || kept.bodies ? {} : plain(becomes(kept))
    if (process.env['SLUICE_RECORD'] === undefined) {
      t.strictSame(reads, kept.reads, 'what is read in it')
      for (const [name, value] of Object.entries(now)) t.strictSame(value, kept.becomes![name], `to ${name}`)
    } else writeFileSync(path, `${JSON.stringify({ ...kept, reads, becomes: now }, undefined, 1)}\n`)
    t.end()
  })
}
