// Writes answers of Converse as an upstream would, whole and event by event.
import { Message } from '../../core/contract/message.ts'
import type { AnswerPart, ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import { eventFrame } from './event-stream.ts'

type Json = Record<string, any>

/** The type of an event and its payload. */
export type ConverseEvent = readonly [type: string, payload: Json]

const stopReasons = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'guardrail_intervened'
} as const

function stopReason({ finish }: ModelAnswer['candidates'][number]): string {
  return stopReasons[finish.reason as keyof typeof stopReasons]
}

function usageOf({ usage }: ModelAnswer): Json {
  const { input, cached_input, cache_write, cache_write_long = 0, output } = usage!
  return {
    inputTokens: input,
    outputTokens: output,
    totalTokens: input + cached_input + cache_write + cache_write_long + output,
    cacheReadInputTokens: cached_input,
    cacheWriteInputTokens: cache_write + cache_write_long,
    ...(cache_write_long > 0 && {
      cacheDetails: [
        { ttl: '5m', inputTokens: cache_write },
        { ttl: '1h', inputTokens: cache_write_long }
      ]
    })
  }
}

function blockOf(part: AnswerPart): Json {
  switch (part.type) {
    case 'text':
      return { text: part.text }
    case 'reasoning':
      return part.proof?.kind === 'redacted'
        ? { reasoningContent: { redactedContent: part.proof.value } }
        : {
            reasoningContent: { reasoningText: { text: part.text, ...(part.proof && { signature: part.proof.value }) } }
          }
    case 'tool_call':
      return { toolUse: { toolUseId: part.id, name: part.name, input: JSON.parse(part.input || '{}') } }
    case 'image':
      return { image: { format: 'png', source: { bytes: part.source.kind === 'data' ? part.source.data : '' } } }
    default:
      throw new Error(`Converse has no place for ${part.type}`)
  }
}

/** The whole answer. */
export function converseAnswer(answer: ModelAnswer): Json {
  const [candidate] = answer.candidates
  return {
    output: { message: { role: 'assistant', content: candidate!.parts.map(blockOf) } },
    stopReason: stopReason(candidate!),
    usage: usageOf(answer),
    metrics: { latencyMs: 12 }
  }
}

/** Cuts a text into pieces of this many characters. */
function pieces(text: string, length: number): string[] {
  const made: string[] = []
  for (let at = 0; at < text.length; at += length) made.push(text.slice(at, at + length))
  return made
}

function eventsOf(part: AnswerPart, contentBlockIndex: number, piece: number, isCut: boolean): ConverseEvent[] {
  const delta = (inner: Json): ConverseEvent => [
    'contentBlockDelta',
    { contentBlockIndex, delta: inner, p: 'abcdefgh' }
  ]
  const stop: ConverseEvent = ['contentBlockStop', { contentBlockIndex, p: 'abc' }]
  const block = blockOf(part)
  if (block['toolUse']) {
    const { toolUseId, name, input } = block['toolUse'] as Json
    const text = JSON.stringify(input)
    const start: ConverseEvent = ['contentBlockStart', { contentBlockIndex, start: { toolUse: { toolUseId, name } } }]
    // A call without arguments has no deltas; in an answer that was cut, it would be one whose arguments are not known.
    return [
      start,
      ...(text === '{}' && !isCut ? [] : pieces(text, piece)).map((part) => delta({ toolUse: { input: part } })),
      stop
    ]
  }
  if (block['image']) {
    const { format, source } = block['image'] as Json
    return [
      ['contentBlockStart', { contentBlockIndex, start: { image: { format } } }],
      delta({ image: { source } }),
      stop
    ]
  }
  if (block['reasoningContent']) {
    const { reasoningText, redactedContent } = block['reasoningContent'] as Json
    if (redactedContent !== undefined) return [delta({ reasoningContent: { redactedContent } }), stop]
    const texts = pieces(reasoningText.text, piece).map((text) => delta({ reasoningContent: { text } }))
    const { signature } = reasoningText as Json
    return [...texts, ...(signature === undefined ? [] : [delta({ reasoningContent: { signature } })]), stop]
  }
  return [...pieces(block['text'], piece).map((text) => delta({ text })), stop]
}

/** The events of an answer whose texts come in pieces of so many characters. */
export function converseEvents(answer: ModelAnswer, piece = 5): ConverseEvent[] {
  const [candidate] = answer.candidates
  return [
    ['messageStart', { role: 'assistant', p: 'abcdefghijk' }],
    ...candidate!.parts.flatMap((part, index) =>
      eventsOf(part, index, piece, candidate!.finish.reason !== 'tool_calls')
    ),
    ['messageStop', { stopReason: stopReason(candidate!), p: 'ab' }],
    ['metadata', { usage: usageOf(answer), metrics: { latencyMs: 34 }, p: 'a' }]
  ]
}

/** The events as the gateway sees them. */
export function converseMessages(events: readonly ConverseEvent[]): Message[] {
  return events.map(([type, payload]) => {
    const data = Buffer.from(JSON.stringify(payload))
    return new Message('event', data, data, type)
  })
}

/** The bytes of a stream. */
export function converseBytes(events: readonly ConverseEvent[]): Buffer {
  return Buffer.concat(events.map(([type, payload]) => eventFrame(type, payload)))
}
