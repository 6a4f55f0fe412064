// The bytes of streams by chance: cut, turned over, repeated, mixed up and blown up, and read as an exchange reads them
// when nothing is translated.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { EventFramer, EventTooLarge } from '../../core/exchange/answers/sse.ts'
import { GatewayError } from '../../core/errors.ts'
import type { ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { protocols, Uninspectable } from '../../core/protocols/index.ts'
import type { Protocol, ProtocolName, TextEditor } from '../../core/protocols/index.ts'
import { chance } from '../kit/chance.ts'
import { streamOf } from '../kit/conversations.ts'

const long = process.env['SLUICE_LONG'] === '1'
const cases = long ? 1_000_000 : 5000
const seed = Number(process.env['SLUICE_SEED'] ?? 20_261_122)
t.setTimeout(long ? 3_600_000 : 600_000)
const { below, pick, damaged } = chance(seed)

const answer: ModelAnswer = {
  id: 'u',
  usage: { input: 9, cached_input: 1, cache_write: 0, output: 5, reasoning: 2 },
  candidates: [
    {
      parts: [
        { type: 'reasoning', text: 'Hm' },
        { type: 'text', text: 'Hello 😀 漢' },
        { type: 'tool_call', id: 'a', name: 'f', custom: false, input: '{"x":"é"}' }
      ],
      finish: { reason: 'tool_calls' }
    }
  ]
}
const translated = Object.fromEntries(
  Object.entries(codecs).map(([name, codec]) => [name, streamOf(codec, answer)])
) as Record<CodecName, Message[]>
const typed = (...payloads: { type: string }[]): Message[] =>
  payloads.map((payload) => Message.event(JSON.stringify(payload), payload.type))
const usage = { input_tokens: 3, output_tokens: 4, total_tokens: 7 }

/** A whole stream of every protocol that has some, event by event. */
const streams: Partial<Record<ProtocolName, Message[]>> = {
  ...translated,
  'openai-completions': [
    ...['He', 'llo 😀'].map((text) =>
      Message.event(
        JSON.stringify({ id: 'c', object: 'text_completion', choices: [{ index: 0, text, finish_reason: null }] })
      )
    ),
    Message.event(
      JSON.stringify({
        id: 'c',
        object: 'text_completion',
        choices: [{ index: 0, text: '', finish_reason: 'stop' }],
        usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
      })
    ),
    Message.event('[DONE]')
  ],
  'openai-images': typed(
    { type: 'image_generation.partial_image', b64_json: 'iVBORw0KGgo=', partial_image_index: 0 } as never,
    { type: 'image_generation.completed', b64_json: 'iVBORw0KGgo=', usage } as never
  ),
  'openai-speech': typed(
    { type: 'speech.audio.delta', audio: 'UklGRg==' } as never,
    { type: 'speech.audio.done', usage } as never
  ),
  'openai-transcriptions': typed(
    { type: 'transcript.text.delta', delta: 'Hello 😀' } as never,
    { type: 'transcript.text.done', text: 'Hello 😀', usage: { type: 'tokens', ...usage } } as never
  )
}
const names = Object.keys(streams) as ProtocolName[]
const request = new Message(
  'json',
  Buffer.from(JSON.stringify({ model: 'm', stream: true, n: 1, input: 'x', prompt: 'x' }))
).lens!

/** What came of a stream. */
interface Reading {
  /** It was taken for a whole answer. */
  whole: boolean
  /** Characters that were kept to be put together. */
  kept: number
}

/**
 * Reads bytes as the intake of an exchange does, with everything that looks on. @throws what it should not, and what it
 * may
 */
function read(protocol: Protocol, chunks: readonly Buffer[]): Reading {
  const watch = protocol.watch(request)
  const collector = protocol.collect()
  const reader = protocol.usageReader?.()
  const tally = protocol.tally?.(request)
  const view = protocol.text?.answer()
  const editor: TextEditor = { text: ({ text }) => text.replaceAll('l', 'L'), end: () => '' }
  let over = false
  let marked = false
  let kept = 0
  const framer = new EventFramer((event) => {
    if (over || event.kind === 'comment' || event.data.length === 0) return
    const kind = marked ? 'content' : watch.see(event)
    if (kind === 'error') protocol.readError(event.json() ?? event.data.toString())
    if (kind === 'error' || kind === 'invalid' || (kind === 'end' && !watch.finished)) {
      over = true
      return
    }
    if (!marked) for (const payload of watch.missing(event)) JSON.parse(payload)
    marked ||= kind === 'end'
    tally?.see(event)
    if (reader) reader.read(event)
    else protocol.readUsage(event)
    protocol.withoutUsage(event)
    protocol.answerBytes(event.json())
    view?.event(event, editor)
    if (!marked) {
      kept += event.data.length
      collector.add(event.json())
    }
  })
  for (const chunk of chunks) framer.push(chunk)
  framer.close()
  const whole = !over && watch.finished
  if (whole) {
    view?.end(editor)
    tally?.read()
    const together = new Message('json', Buffer.from(JSON.stringify(collector.result()) ?? ''))
    if (protocol.isAnswer(together))
      protocol.chunksOf(together.json()).forEach((payload) => protocol.eventName?.(payload))
  }
  return { whole, kept }
}

/** Nested deeper than any stack goes, as a value. */
const deepest = `${'[{"text":'.repeat(8000)}"l"${'}]'.repeat(8000)}`
/** Large, far, and less than nothing. */
const numbers = ['-1', '1.5', '2147483648', '4294967296', '9007199254740993', '1e300', '"7"']

/** JSON text with another value in one place. */
function replaced(text: string, which: RegExp, by: string): string {
  const found = [...text.matchAll(which)]
  if (found.length === 0) return text
  const { index, 0: old, 1: before = '' } = pick(found)
  return `${text.slice(0, index)}${before}${by}${text.slice(index + old.length)}`
}

const bytesOf = (events: readonly Message[]): Buffer => Buffer.concat(events.map(({ bytes }) => bytes))

/** The same bytes in pieces. */
function pieces(bytes: Buffer): Buffer[] {
  const size = pick([1, 2, 7, 40, 1000, bytes.length + 1])
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
    bytes.subarray(index * size, (index + 1) * size)
  )
}

const hostile = [
  '"'.repeat(3000),
  '{"a":'.repeat(400),
  '['.repeat(2000),
  '1'.repeat(400),
  '\\u0000',
  '\r\r\n',
  ': ping\n\n',
  'event: error\n',
  'data: {}\n\n',
  'data: [DONE]\n\n',
  'data\n\n',
  '\ufeff',
  'id: 7\nretry: 1\n'
]

function spoiled(events: readonly Message[], others: readonly Message[]): Buffer {
  const made = [...events]
  for (let times = below(3); times > 0; times--) {
    const place = below(made.length)
    const event = made[place]!
    switch (below(8)) {
      case 4:
        made[place] = Message.event(
          replaced(
            event.data.toString(),
            /(:)(?:"(?:[^"\\]|\\.)*"|null|\d+|\{\}|\[\])/g,
            pick([deepest, '[{}]', '{"a":1}', '"\\ud83d"', '"\\u0000"'])
          ),
          event.event
        )
        break
      case 5:
        made[place] = Message.event(replaced(event.data.toString(), /([:[,])-?\d[\d.e+]*/g, pick(numbers)), event.event)
        break
      case 6:
        made.push(...made.slice(place))
        break
      case 0:
        made.splice(place, 1)
        break
      case 1:
        made.splice(place, 0, event)
        break
      case 2:
        made.splice(place, 0, pick(others))
        break
      case 3:
        ;[made[place], made[0]] = [made[0]!, event]
        break
      default:
        made[place] = Message.event(JSON.stringify(damaged(event.json())) ?? 'null', event.event)
    }
    if (made.length === 0) return Buffer.alloc(0)
  }
  let bytes = bytesOf(made)
  for (let times = below(3); times > 0; times--) {
    const at = below(bytes.length + 1)
    const to = Math.min(bytes.length, at + 1 + below(60))
    switch (below(6)) {
      case 0:
        bytes = bytes.subarray(0, at)
        break
      case 1:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(to)])
        break
      case 2:
        bytes = Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)])
        break
      case 3:
        bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from(pick(hostile)), bytes.subarray(at)])
        break
      case 4:
        bytes = Buffer.from(bytes.toString('latin1').replaceAll('\n', pick(['\r\n', '\r', '\n'])), 'latin1')
        break
      default:
        if (at < bytes.length) (bytes = Buffer.from(bytes))[at] = below(256)
    }
  }
  return bytes
}

t.test(
  'whatever bytes an upstream sends, nothing that reads them throws anything but what is meant for clients',
  async (t) => {
    const wrong: string[] = []
    let whole = 0
    for (let count = 0; count < cases && wrong.length < 5; count++) {
      const name = pick(names)
      const bytes = spoiled(streams[name]!, streams[pick(names)]!)
      try {
        const reading = read(protocols[name], pieces(bytes))
        if (reading.whole) whole++
        if (reading.kept > bytes.length) wrong.push(`${name} kept more than it was sent`)
      } catch (error) {
        if (error instanceof GatewayError || error instanceof Uninspectable || error instanceof EventTooLarge) continue
        wrong.push(`${name}: ${(error as Error).stack}: ${JSON.stringify(bytes.toString())}`)
      }
    }
    t.same(wrong, [], `seed ${seed}`)
    t.ok(whole > cases / 100 && whole < cases, `${whole} of ${cases} were whole all the same`)
  }
)

t.test('a stream that is cut at any byte before its last word is no whole answer', async (t) => {
  /** Without it nothing has said that the answer is over. */
  const lastWords: Partial<Record<ProtocolName, RegExp>> = {
    'openai-chat': /"finish_reason":"/,
    'openai-responses': /"response\.completed"/,
    anthropic: /"message_stop"/,
    gemini: /"finishReason":"/,
    'openai-completions': /"finish_reason":"/,
    'openai-images': /"image_generation\.completed"/,
    'openai-speech': /"speech\.audio\.done"/,
    'openai-transcriptions': /"transcript\.text\.done"/
  }
  for (const name of names) {
    const events = streams[name]!
    const protocol = protocols[name]
    const bytes = bytesOf(events)
    const last = events.findIndex(({ data }) => lastWords[name]!.test(data.toString()))
    const from = bytesOf(events.slice(0, last)).length
    const to = bytesOf(events.slice(0, last + 1)).length
    t.ok(last >= 0 && read(protocol, [bytes]).whole, name)
    let lied = 0
    // The blank line that ends the last event may be missing.
    for (let at = 0; at < to - 2; at++) if (read(protocol, [bytes.subarray(0, at)]).whole) lied++
    t.equal(lied, 0, `${name}: cut before the end of byte ${from} to ${to}`)
  }
})
