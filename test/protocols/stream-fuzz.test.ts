// Streams by chance: damaged, cut, out of order and of hostile sizes, read as every protocol and told to clients of all
// others.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import type { ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { parseObject } from '../../core/protocols/canonical/json.ts'
import { emptyRequest } from '../../core/protocols/canonical/request.ts'
import { Losses } from '../../core/protocols/canonical/losses.ts'
import { Asked, StreamTranslation, Untranslatable } from '../../core/protocols/translation/translation.ts'
import type { Codec } from '../../core/protocols/translation/translation.ts'
import { chance } from '../kit/chance.ts'
import { answerHead, readStream, streamOf } from '../kit/conversations.ts'

const cases = process.env['SLUICE_LONG'] === '1' ? 1_000_000 : 10_000
const seed = Number(process.env['SLUICE_SEED'] ?? 20_261_122)

const { below, pick, damaged } = chance(seed)

const answers: readonly ModelAnswer[] = [
  {
    id: 'u',
    candidates: [
      {
        parts: [
          { type: 'reasoning', text: 'Hm' },
          { type: 'text', text: 'Hello 😀' }
        ],
        finish: { reason: 'stop' }
      }
    ],
    usage: { input: 9, cached_input: 1, cache_write: 0, output: 5, reasoning: 2 }
  },
  {
    id: 'u',
    candidates: [
      {
        parts: [
          { type: 'text', text: 'Look' },
          { type: 'tool_call', id: 'a', name: 'f', custom: false, input: '{"x":"é"}' },
          { type: 'tool_call', id: 'b', name: 'g', custom: false, input: '{}' }
        ],
        finish: { reason: 'tool_calls' }
      }
    ],
    usage: undefined
  },
  { id: 'u', candidates: [{ parts: [{ type: 'text', text: 'cut' }], finish: { reason: 'length' } }], usage: undefined }
]
const list = Object.values(codecs) as Codec[]
const streams = list.map((codec) =>
  answers.map((answer) => streamOf(codec, answer).map((event) => [event.data.toString(), event.event] as const))
)
const plans = list.map((client) =>
  list.map((upstream) => {
    const request = {
      ...emptyRequest('m', true),
      turns: [{ role: 'user' as const, parts: [{ type: 'text' as const, text: 'Hi' }] }]
    }
    const body = client.encodeRequest(
      request,
      { model: 'm', traits: {} },
      new Losses(client.conversation, client.capabilities.asks)
    )
    return new Asked(client, body, { model: 'm', streaming: true }).for(upstream, { model: 'm', traits: {} }).answer
  })
)

type Event = readonly [data: string, name: string]

/** Numbers where others stand: counts that are none, and places far away. */
const numbers = ['-1', '1.5', '2147483648', '4294967296', '9007199254740993', '1e300', '-0', '"7"', 'null']
/**
 * Strings where others stand: halves of characters, nothing, marks, and names of members that objects have by birth.
 */
const strings = [
  '"\\ud83d"',
  '"a\\udc00b"',
  '"\\u0000"',
  '""',
  '"\ufeff"',
  '"[DONE]"',
  '"__proto__"',
  '"constructor"',
  '"\\u2028"'
]
const deep = `${'['.repeat(3000)}${']'.repeat(3000)}`

/** JSON text with another value in one place. */
function replaced(data: string, which: RegExp, by: string): string {
  const found = [...data.matchAll(which)]
  if (found.length === 0) return data
  const { index, 0: text, 1: before = '' } = pick(found)
  return `${data.slice(0, index)}${before}${by}${data.slice(index + text.length)}`
}

function mutated(events: readonly Event[], others: readonly Event[]): Event[] {
  let made = [...events]
  for (let times = 1 + below(3); times > 0; times--) {
    const place = below(made.length)
    const [data = '', name = ''] = made[place] ?? []
    switch (below(14)) {
      case 8:
        made[place] = [replaced(data, /([:[,])-?\d[\d.e+]*/g, pick(numbers)), name]
        break
      case 9:
        made[place] = [replaced(data, /([:[,])"(?:[^"\\]|\\.)*"(?!:)/g, pick(strings)), name]
        break
      case 10:
        made[place] = [
          replaced(data, /(:)(?:"(?:[^"\\]|\\.)*"|null|\d+|\{\}|\[\])/g, pick([deep, '[{}]', '{"a":1}'])),
          name
        ]
        break
      // Everything again from here, and everything the other way round.
      case 11:
        made = [...made, ...made.slice(place)]
        break
      case 12:
        made.reverse()
        break
      case 13:
        made = Array<readonly Event[]>(1 + below(40))
          .fill([[data, name]])
          .flatMap((again) => again)
          .concat(made)
        break
      case 0:
        made = made.slice(0, place)
        break
      case 1:
        made.splice(place, 1)
        break
      case 2:
        made.splice(place, 0, [data, name])
        break
      case 3:
        ;[made[place], made[0]] = [made[0]!, made[place]!]
        break
      case 4:
        made[place] = [data.slice(0, below(data.length)), name]
        break
      case 5:
        made.splice(place, 0, pick(others))
        break
      case 6:
        made[place] = [
          pick([
            '[DONE]',
            '',
            'null',
            '[]',
            '"x"',
            '{}',
            '{"error":{"message":"x"}}',
            '{"type":"error"}',
            '{"choices":[{}]}'
          ]),
          pick(['', 'error', name])
        ]
        break
      default:
        try {
          made[place] = [JSON.stringify(damaged(JSON.parse(data))) ?? 'null', name]
        } catch {
          made[place] = [`${data}}`, name]
        }
    }
    if (made.length === 0) break
  }
  return made
}

/**
 * The words and the calls of the first answer that a stream tells; those of a client that cannot read it are the
 * reason.
 */
function said(codec: Codec, events: readonly Message[]): string {
  try {
    const { parts } = readStream(codec, events).candidates[0]!
    const text = parts.map((part) => (part.type === 'text' || part.type === 'refusal' ? part.text : '')).join('')
    return JSON.stringify([
      text,
      parts.flatMap((part) =>
        part.type === 'tool_call' && part.input !== '' && parseObject(part.input)
          ? [[part.name, parseObject(part.input)]]
          : []
      )
    ])
  } catch (error) {
    return (error as Error).message
  }
}

t.test(
  'whatever an upstream sends, a translator throws its own error alone, and ends cleanly only what the upstream ended',
  async (t) => {
    const wrong: string[] = []
    let whole = 0
    for (let count = 0; count < cases && wrong.length < 5; count++) {
      const upstream = below(list.length)
      let client = below(list.length)
      if (client === upstream) client = (client + 1) % list.length
      const events = mutated(pick(streams[upstream]!), pick(streams[below(list.length)]!))
      let ended = false
      const written: Message[] = []
      const translation = new StreamTranslation(plans[client]![upstream]!, answerHead, (data, name) => {
        written.push(Message.event(data, name))
        ended ||=
          data === '[DONE]' ||
          name === 'message_stop' ||
          name === 'response.completed' ||
          name === 'response.incomplete' ||
          data.includes('"finishReason"')
      })
      try {
        for (const [data, name] of events) translation.push(Message.event(data, name))
        if (ended) wrong.push(`ended before its end: ${JSON.stringify(events)}`)
        const finished = translation.finished()
        translation.end()
        if (!finished || !ended) wrong.push(`ended what was cut: ${JSON.stringify(events)}`)
        whole++
        const [told, heard] = [
          said(
            list[upstream]!,
            events.map(([data, name]) => Message.event(data, name))
          ),
          said(list[client]!, written)
        ]
        if (told !== heard)
          wrong.push(`${list[client]!.family} heard ${heard}, and was told ${told}: ${JSON.stringify(events)}`)
      } catch (error) {
        if (!(error instanceof Untranslatable)) wrong.push(`${(error as Error).stack}: ${JSON.stringify(events)}`)
      }
    }
    t.same(wrong, [], `seed ${seed}`)
    t.ok(whole > cases / 100, `${whole} of ${cases} were whole all the same`)
  }
)

t.test('what an upstream makes a translator keep has a bound', async (t) => {
  const piece = 'x'.repeat(1024 * 1024)
  const endless: Record<string, { before: unknown[]; more: (count: number) => unknown }> = {
    'openai-chat': {
      before: [
        {
          choices: [
            { index: 0, delta: { tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '' } }] } }
          ]
        }
      ],
      more: () => ({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: piece } }] } }] })
    },
    anthropic: {
      before: [
        { type: 'message_start', message: { id: 'm' } },
        { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'a', name: 'f', input: {} } }
      ],
      more: () => ({ type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: piece } })
    },
    'openai-responses': {
      before: [
        { type: 'response.created', response: {} },
        {
          type: 'response.output_item.added',
          output_index: 0,
          item: { type: 'function_call', id: 'i', call_id: 'a', name: 'f' }
        }
      ],
      more: () => ({ type: 'response.function_call_arguments.delta', item_id: 'i', output_index: 0, delta: piece })
    }
  }
  for (const [name, { before, more }] of Object.entries(endless)) {
    const codec = codecs[name as keyof typeof codecs]
    const decoder = codec.decodeStream('id')
    const push = (event: unknown): void => decoder.push(Message.event(JSON.stringify(event)), () => {})
    before.forEach(push)
    t.throws(
      () => {
        for (let count = 0; count < 20; count++) push(more(count))
      },
      { code: 'answer_too_large' },
      name
    )
  }
  const responses = new StreamTranslation(plans[1]![0]!, answerHead, () => {})
  t.throws(
    () => {
      for (let count = 0; count < 20; count++)
        responses.push(Message.event(JSON.stringify({ choices: [{ index: 0, delta: { content: piece } }] })))
    },
    { code: 'answer_too_large' },
    'an answer that has to be repeated at its end'
  )
  const parts = codecs.gemini.decodeStream('id')
  t.throws(
    () => {
      for (let count = 0; count < 20_000; count++)
        parts.push(Message.event('{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}'), () => {})
    },
    { code: 'answer_too_large' },
    'parts without number'
  )
})
