// A plugin that masks words, which upstreams cut anywhere, between clients and channels of all protocols: above the
// translation and below it, streamed and whole.
import t from 'tap'
import type { TextStage } from '../../core/contract/contract.ts'
import { Message } from '../../core/contract/message.ts'
import { textStage } from '../../core/exchange/attempts/text-stage.ts'
import type { EmitEvent, ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import { tell } from '../../core/protocols/canonical/assemble.ts'
import type { Codec } from '../../core/protocols/canonical/codec.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { protocols } from '../../core/protocols/index.ts'
import { parseAnswer, StreamTranslation, translateAnswer } from '../../core/protocols/translation/translation.ts'
import type { AnswerPlan } from '../../core/protocols/translation/translation.ts'
import { answerHead, readStream } from '../kit/conversations.ts'
import { asking, sent } from '../kit/pairs.ts'

const letters: Readonly<Record<CodecName, string>> = {
  'openai-chat': 'C',
  'openai-responses': 'R',
  anthropic: 'M',
  gemini: 'G'
}
const names = Object.keys(letters) as CodecName[]

/** Holds back what may still become an address, and leaves the arguments of tools alone. */
function masking(): TextStage {
  const held = new Map<string, string>()
  const masked = (text: string): string => text.replace(/\S+@\S+/g, '[mail]')
  return {
    text({ block, kind, text }) {
      if (kind === 'arguments') return text
      const all = (held.get(block) ?? '') + text
      const cut = all.search(/\S*$/)
      held.set(block, all.slice(cut))
      return masked(all.slice(0, cut))
    },
    flush: ({ block }) => masked(held.get(block) ?? '')
  }
}

const said = 'Write to me@a.b, or to you@x.y: mail@end.example'
const answer: ModelAnswer = {
  id: 'u',
  usage: { input: 1, cached_input: 0, cache_write: 0, output: 9, reasoning: 3 },
  candidates: [
    {
      parts: [
        { type: 'reasoning', text: 'I am me@a.b, so' },
        {
          type: 'text',
          text: said,
          citations: [{ url: 'https://a.example', title: 'A', start: said.indexOf('you'), end: said.indexOf(':') }]
        },
        { type: 'tool_call', id: 'call_1', name: 'send', custom: false, input: '{"to":"me@a.b"}' }
      ],
      finish: { reason: 'tool_calls' }
    }
  ]
}

/** The same events with every text in pieces of a few letters. */
function inPieces(emit: EmitEvent): EmitEvent {
  return (event) => {
    if (event.type !== 'delta') return emit(event)
    for (let at = 0; at < event.text.length; at += 3) emit({ ...event, text: event.text.slice(at, at + 3) })
  }
}

function streamOf(codec: Codec): Message[] {
  const events: Message[] = []
  const encoder = codec.encodeStream(answerHead)
  tell(
    answer,
    inPieces((event) => encoder.push(event, (data, name) => events.push(Message.event(data, name))))
  )
  return events
}

/** Through the stage, as an exchange brings a stream there: what its end emits comes before the last event. */
function throughStage(name: CodecName, events: readonly Message[]): Message[] {
  const mapper = textStage('masking', masking(), protocols[name])!
  const [out, last]: Message[][] = [[], []]
  for (const [at, event] of events.entries())
    mapper.map(event, (message) => void (at === events.length - 1 ? last : out)!.push(message))
  mapper.end!(true, (message) => void out!.push(message))
  return [...out!, ...last!]
}

function wholeThroughStage(name: CodecName, body: unknown): unknown {
  let made: Message | undefined
  textStage('masking', masking(), protocols[name])!.map(
    new Message('json', Buffer.from(JSON.stringify(body))),
    (message) => void (made = message)
  )
  return parseAnswer(made!.data.toString())
}

function translated(plan: AnswerPlan | undefined, events: readonly Message[]): Message[] {
  if (!plan) return [...events]
  const out: Message[] = []
  const translation = new StreamTranslation(plan, answerHead, (data, name) => out.push(Message.event(data, name)))
  for (const event of events) translation.push(event)
  translation.end()
  return out
}

/**
 * What a client has in the end: words, calls, and what is cited. Of a text that was changed, that is all of it, as
 * Messages cite, or nobody knows which words.
 */
function heard({ candidates }: ModelAnswer): unknown {
  return candidates[0]!.parts.flatMap((part) => {
    if (part.type === 'tool_call') return [[part.name, part.input]]
    if (!('text' in part)) return []
    const cited = ('citations' in part && part.citations) || []
    return [
      [part.type, part.text],
      ...cited.map(({ url, start = 0, end = 0 }) => [url, start === 0 && (end === 0 || end === part.text.length)])
    ]
  })
}

/**
 * Gemini tells where things are from at the end, where a call stands behind the text, and nobody takes it for the
 * text's.
 */
const expected = (cites: boolean): unknown => [
  ['reasoning', 'I am [mail] so'],
  ['text', 'Write to [mail] or to [mail] [mail]'],
  ...(cites ? [['https://a.example', true]] : []),
  ['send', '{"to":"me@a.b"}']
]

for (const upstream of names) {
  t.test(
    `words of ${upstream} are masked for clients of every protocol, streamed as whole, and nothing else is`,
    async (t) => {
      for (const client of names) {
        const plan =
          client === upstream
            ? undefined
            : sent(`${letters[client]}→${letters[upstream]}`, asking[letters[client]!]).plan
        const from: Codec = codecs[upstream]
        const to: Codec = codecs[client]
        const events = streamOf(from)
        const body: unknown = JSON.parse(JSON.stringify(from.encodeAnswer(answer, answerHead)))
        const toClient = (given: unknown): unknown =>
          plan ? JSON.parse(JSON.stringify(translateAnswer(plan, given, answerHead).body)) : given
        for (const [way, streamed, whole] of [
          ['below', translated(plan, throughStage(upstream, events)), toClient(wholeThroughStage(upstream, body))],
          ['above', throughStage(client, translated(plan, events)), wholeThroughStage(client, toClient(body))]
        ] as const) {
          const cites = client !== 'gemini' && upstream !== 'gemini'
          t.strictSame(heard(readStream(to, streamed)), expected(cites), `${client}, ${way}, streamed`)
          t.strictSame(heard(to.decodeAnswer(whole, answerHead.id)), expected(cites), `${client}, ${way}, whole`)
          const all = [...streamed.map(({ data }) => data.toString()), JSON.stringify(whole)].join('\n')
          t.notMatch(all, /you@|mail@end/, `${client}, ${way}: in no member of any event`)
        }
      }
    }
  )
}

t.test('what tells of the words beside them is left out, in whatever chunk it comes', async (t) => {
  const chunk = (text: string, more: object = {}): Message =>
    Message.event(
      JSON.stringify({ candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] }, ...more }] })
    )
  const supports = {
    groundingMetadata: {
      groundingChunks: [{ web: { uri: 'https://a.example' } }],
      groundingSupports: [{ segment: { startIndex: 0, endIndex: 9, text: 'I am me@a.b' } }]
    },
    citationMetadata: { citationSources: [{ startIndex: 5, endIndex: 9, uri: 'https://a.example' }] },
    avgLogprobs: -1,
    logprobsResult: { chosenCandidates: [{ token: 'me@a.b' }] }
  }
  const seen = throughStage('gemini', [
    chunk('I am me@'),
    chunk('a.b '),
    chunk('', { finishReason: 'STOP', ...supports })
  ])
    .map(({ data }) => data.toString())
    .join('\n')
  t.notMatch(seen, 'me@')
  t.notMatch(seen, /Index|ogprobs|upports/)
  t.match(
    seen,
    /"groundingChunks":\[\{"web":\{"uri":"https:\/\/a\.example"\}\}\].*"citationSources":\[\{"uri":"https:\/\/a\.example"\}\]/
  )
  const same = [chunk('I am', {}), chunk('', { finishReason: 'STOP', ...supports })]
  const mapper = textStage('reading', { text: () => {} }, protocols.gemini)!
  const out: Message[] = []
  for (const event of same) mapper.map(event, (message) => void out.push(message))
  t.strictSame(out, same, 'who changes nothing changes none of it')
})
