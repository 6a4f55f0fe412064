// Streams as upstreams of every protocol send them, brought to clients of every protocol: the same is said, and what
// breaks off has no end.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Message } from '../../core/contract/message.ts'
import { EventFramer } from '../../core/exchange/answers/sse.ts'
import type { ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import { Losses } from '../../core/protocols/canonical/losses.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { Asked, StreamTranslation } from '../../core/protocols/translation/translation.ts'
import type { AnswerPlan } from '../../core/protocols/translation/translation.ts'
import { answerHead, readStream, translateStream } from '../kit/conversations.ts'

const folder = join(import.meta.dirname, '../golden/translation')
const names = Object.keys(codecs) as CodecName[]
const cases = readdirSync(folder)
  .filter((file) => file.endsWith('.json'))
  .map((file) => file.slice(0, -5))

/** See test/golden/README.md. */
interface Expected {
  summary: string
  parts: readonly (readonly [kind: string, said: unknown])[] | null
  finish: readonly string[]
  usage: readonly [input: number, output: number] | null
}

/** What a client of each protocol asks, who wants to see thoughts. */
const asked: Readonly<Record<CodecName, Record<string, unknown>>> = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
  'openai-responses': { model: 'm', input: 'Hi', reasoning: { summary: 'auto' } },
  anthropic: { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
  gemini: {
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } }
  }
}

function planOf(client: CodecName, upstream: CodecName): AnswerPlan {
  return new Asked(codecs[client], asked[client], { model: 'm', streaming: true }).for(codecs[upstream], {
    model: 'up',
    traits: {}
  }).answer
}

function framed(...pieces: readonly Buffer[]): Message[] {
  const events: Message[] = []
  const framer = new EventFramer((message: Message) => void (message.kind === 'event' && events.push(message)))
  for (const piece of pieces) framer.push(piece)
  framer.close()
  return events.filter(({ data }) => data.toString() !== '[DONE]')
}

const textOf = (events: readonly Message[]): string =>
  events.map(({ event, data }) => `${event} ${data.toString('latin1')}`).join('\n')

/** What is said: a refusal is a text to those whose protocol has no place for it. */
function saidIn({ candidates }: ModelAnswer): unknown {
  return candidates[0]!.parts.flatMap((part) => {
    if (part.type === 'tool_call') return [[part.name, JSON.parse(part.input)]]
    return 'text' in part && part.text !== '' ? [[part.type === 'refusal' ? 'text' : part.type, part.text]] : []
  })
}

for (const name of cases) {
  const { summary, parts, finish, usage } = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Expected
  t.test(`${name}: ${summary}`, async (t) => {
    for (const upstream of names) {
      const bytes = readFileSync(join(folder, upstream, `${name}.sse`))
      const events = framed(bytes)
      const whole = textOf(events)
      let different = 0
      for (let at = 1; at < bytes.length; at++)
        if (textOf(framed(bytes.subarray(0, at), bytes.subarray(at))) !== whole) different++
      t.equal(different, 0, `${upstream} cut anywhere has the same events`)
      for (const client of names) {
        const way = `${upstream} to ${client}`
        if (!parts) {
          const translation = new StreamTranslation(planOf(client, upstream), answerHead, () => {})
          t.throws(
            () => {
              for (const event of events) translation.push(event)
              translation.end()
            },
            { name: 'Untranslatable', code: 'upstream_bad_response' },
            way
          )
          t.notOk(translation.finished(), `${way}: it is no whole answer`)
          continue
        }
        const answer = readStream(codecs[client], translateStream(planOf(client, upstream), events))
        t.strictSame(saidIn(answer), parts, way)
        t.ok(
          finish.includes(answer.candidates[0]!.finish.reason),
          `${way} ends with ${answer.candidates[0]!.finish.reason}`
        )
        t.match(answer.usage, { input: usage![0], output: usage![1] }, way)
      }
    }
  })
}

/**
 * A conversation as the gateway reads it, without what differs for a reason: where ids come from, and how a limit is
 * spelled.
 */
function conversationIn(name: CodecName, body: Record<string, unknown>): unknown {
  const losses = new Losses(codecs[name].conversation, codecs[name].capabilities.asks)
  const { turns, tools, maxOutputTokens } = codecs[name].decodeRequest(body, { model: 'm', streaming: false }, losses)
  const parts = turns.flatMap((turn) =>
    turn.role === 'tool'
      ? turn.results.map(({ name: tool, parts: found }) => [
          'result',
          tool,
          ...found.map((part) =>
            'text' in part ? part.text.replace(/^\{"(?:output|result)":"(.*)"\}$/, '$1') : part.type
          )
        ])
      : turn.parts.map((part) => {
          if (part.type === 'tool_call') return ['call', part.name, JSON.parse(part.input)]
          return part.type === 'image' ? ['image', part.source] : [turn.role, 'text' in part ? part.text : part.type]
        })
  )
  return {
    parts,
    tools: tools.map(({ name: tool, description, parameters }) => [tool, description, parameters]),
    maxOutputTokens
  }
}

t.test(
  'a conversation with a picture and a tool is the same to upstreams of every protocol, and always in the same bytes',
  async (t) => {
    const read = (name: CodecName): Record<string, unknown> =>
      JSON.parse(readFileSync(join(folder, 'requests', `${name}.json`), 'utf8')) as Record<string, unknown>
    const expected = conversationIn('openai-chat', read('openai-chat'))
    t.match(JSON.stringify(expected), /iVBORw0KGgo.*21 degrees/)
    for (const client of names) {
      t.strictSame(conversationIn(client, read(client)), expected, `${client} as it is asked`)
      for (const upstream of names) {
        const translate = (): Record<string, unknown> =>
          new Asked(codecs[client], read(client), { model: 'm', streaming: false }).for(codecs[upstream], {
            model: 'm',
            traits: {}
          }).body
        const body = translate()
        t.equal(JSON.stringify(translate()), JSON.stringify(body))
        t.strictSame(
          conversationIn(upstream, JSON.parse(JSON.stringify(body)) as Record<string, unknown>),
          expected,
          `${client} to ${upstream}`
        )
      }
    }
  }
)
