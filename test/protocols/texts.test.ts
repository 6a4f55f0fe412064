// Texts of answers in every protocol: who changes them changes all of them, in a stream as in the whole, and who
// changes nothing changes no byte.
import fc from 'fast-check'
import t from 'tap'
import type { TextStage } from '../../core/contract/contract.ts'
import { Message } from '../../core/contract/message.ts'
import { textStage } from '../../core/exchange/attempts/text-stage.ts'
import type { ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import type { Codec } from '../../core/protocols/canonical/codec.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { Protocol } from '../../core/protocols/index.ts'
import { answerHead, answers, readStream, streamOf } from '../kit/conversations.ts'
import type { Means } from '../kit/conversations.ts'

const runs = process.env['SLUICE_LONG'] === undefined ? 100 : 20_000
const spoken = {
  'openai-chat': { candidates: true },
  'openai-responses': { proofs: 'openai' },
  anthropic: { refusals: false, proofs: 'anthropic' },
  gemini: { refusals: false, proofs: 'gemini', candidates: true }
} as const satisfies Record<string, Means>

/** What becomes of a text; arguments stay JSON. */
const changed = (kind: string, text: string): string =>
  kind === 'arguments' ? JSON.stringify({ ...JSON.parse(text), seen: true }) : `<${text.toUpperCase()}>`

/** Holds everything back until its block ends, and changes it then. */
function holding(): TextStage {
  const held = new Map<string, string>()
  return {
    text: ({ block, text }) => (held.set(block, (held.get(block) ?? '') + text), ''),
    flush: ({ block, kind }) => changed(kind, held.get(block)!)
  }
}

/** A stream on its way through a stage, as the relay brings it there. */
function through(protocol: Protocol, stage: TextStage, events: readonly Message[]): Message[] {
  const mapper = textStage('test', stage, protocol)!
  const [out, last]: Message[][] = [[], []]
  for (const [at, event] of events.entries())
    mapper.map(event, (message) => void (at === events.length - 1 ? last : out)!.push(message))
  mapper.end!(true, (message) => void out!.push(message))
  return [...out!, ...last!]
}

function whole(protocol: Protocol, stage: TextStage, body: unknown): unknown {
  let made: Message | undefined
  textStage('test', stage, protocol)!.map(
    new Message('json', Buffer.from(JSON.stringify(body))),
    (message) => void (made = message)
  )
  return JSON.parse(made!.data.toString())
}

/** What is said, without what proves or counts it. Calls come last: a chat has no order between them and the rest. */
function said(
  { candidates }: ModelAnswer,
  edit: (kind: string, text: string) => string = (_kind, text) => text
): unknown[] {
  return candidates.map(({ parts }) => {
    const [calls, texts]: unknown[][] = [[], []]
    for (const part of parts) {
      if (part.type === 'tool_call') calls!.push([part.name, JSON.parse(edit('arguments', part.input))])
      else texts!.push([part.type, 'text' in part ? edit(part.type, part.text) : ''])
    }
    return [texts, calls]
  })
}

for (const [name, means] of Object.entries(spoken) as [keyof typeof spoken, Means][]) {
  const protocol: Protocol = protocols[name]
  const codec: Codec = codecs[name]
  t.test(`${name}: a stream and the whole become the same, with every text changed once`, async (t) => {
    fc.assert(
      fc.property(answers(means), (answer) => {
        const events = streamOf(codec, answer)
        const expected = said(readStream(codec, events), changed)
        const streamed = through(protocol, holding(), events)
        t.strictSame(said(readStream(codec, streamed)), expected)
        const body = JSON.parse(JSON.stringify(codec.encodeAnswer(answer, answerHead)))
        t.strictSame(said(codec.decodeAnswer(whole(protocol, holding(), body), answerHead.id)), expected)
      }),
      { numRuns: runs }
    )
  })

  t.test(`${name}: who changes nothing changes no byte`, async (t) => {
    fc.assert(
      fc.property(answers(means), (answer) => {
        const events = streamOf(codec, answer)
        t.strictSame(through(protocol, { text: () => {} }, events), events)
        const body = JSON.parse(JSON.stringify(codec.encodeAnswer(answer, answerHead)))
        t.strictSame(whole(protocol, { text: () => {} }, body), body)
      }),
      { numRuns: runs }
    )
  })
}

t.test('what the last events of a response repeat is what was said, and its events stay numbered', async (t) => {
  const text = {
    type: 'output_text',
    text: 'mail me@a.b now',
    annotations: [{ type: 'url_citation', start_index: 0, end_index: 4 }],
    logprobs: []
  }
  const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: [text] }
  const at = { item_id: 'msg_1', output_index: 0, content_index: 0 }
  const events = [
    { type: 'response.created', response: { id: 'r', output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress', content: [] } },
    { type: 'response.content_part.added', ...at, part: { ...text, text: '', annotations: [] } },
    ...['mail me', '@a.b', ' now'].map((delta) => ({ type: 'response.output_text.delta', ...at, delta })),
    { type: 'response.output_text.done', ...at, text: text.text },
    { type: 'response.content_part.done', ...at, part: text },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: { id: 'r', output: [item] } }
  ].map((event, sequence_number) => Message.event(JSON.stringify({ ...event, sequence_number }), event.type))
  const made = through(protocols['openai-responses'], holding(), events).map(
    (message) => [message.event, message.json() as Record<string, any>] as const
  )
  t.strictSame(
    made.map(([, event]) => event['sequence_number']),
    [...made.keys()],
    'in order, none twice'
  )
  t.ok(made.every(([event, { type }]) => event === type))
  const shown = '<MAIL ME@A.B NOW>'
  t.equal(
    made
      .filter(([event]) => event.endsWith('.delta'))
      .map(([, { delta }]) => delta as string)
      .join(''),
    shown
  )
  t.match(made.at(-4)![1], { type: 'response.output_text.done', text: shown })
  t.match(made.at(-3)![1], { part: { text: shown, annotations: [] } })
  t.match(made.at(-2)![1], { item: { content: [{ text: shown }] } })
  t.match(made.at(-1)![1], { response: { output: [{ content: [{ text: shown, annotations: [] }] }] } })
})

t.test('completions and transcripts', async (t) => {
  const completions = [
    {
      id: 'c',
      choices: [
        { index: 0, text: 'a' },
        { index: 1, text: 'b' }
      ]
    },
    { id: 'c', choices: [{ index: 0, text: 'c', finish_reason: 'stop', logprobs: { tokens: ['c'] } }] },
    { id: 'c', choices: [{ index: 1, text: '', finish_reason: null }] }
  ].map((event) => Message.event(JSON.stringify(event)))
  const made = through(protocols['openai-completions'], holding(), [...completions, Message.event('[DONE]')])
  const texts = new Map<number, string>()
  for (const message of made.slice(0, -1))
    for (const { index, text, logprobs } of (message.json() as any).choices) {
      texts.set(index, (texts.get(index) ?? '') + text)
      t.notOk(logprobs)
    }
  t.strictSame(
    [...texts],
    [
      [0, '<AC>'],
      [1, '<B>']
    ]
  )
  t.equal(made.at(-1)!.data.toString(), '[DONE]')
  t.same(
    whole(protocols['openai-completions'], holding(), {
      choices: [{ index: 0, text: 'hi', logprobs: null, finish_reason: 'stop' }]
    }),
    { choices: [{ index: 0, text: '<HI>', logprobs: null, finish_reason: 'stop' }] }
  )

  const transcript = [
    { type: 'transcript.text.delta', delta: 'a ', logprobs: [1] },
    { type: 'transcript.text.delta', delta: 'b' },
    { type: 'transcript.text.done', text: 'a b', usage: {} }
  ].map((event) => Message.event(JSON.stringify(event)))
  t.same(
    through(protocols['openai-transcriptions'], holding(), transcript).map((message) => message.json()),
    [
      { type: 'transcript.text.delta', delta: '', logprobs: [] },
      { type: 'transcript.text.delta', delta: '' },
      { type: 'transcript.text.delta', delta: '<A B>' },
      { type: 'transcript.text.done', text: '<A B>', usage: {} }
    ]
  )
  t.same(
    whole(protocols['openai-transcriptions'], holding(), {
      text: 'a b',
      segments: [{ id: 0, text: 'a b' }],
      words: [{ word: 'a', start: 0 }]
    }),
    { text: '<A B>', segments: [{ id: 0, text: '<A B>' }], words: [{ word: '<A>', start: 0 }] }
  )
})

/** The texts of a prompt with where they stand, and the prompt with each of them changed. */
function prompted(
  protocol: Protocol,
  body: Record<string, unknown>
): { seen: string[]; made: Record<string, unknown> } {
  const made = { ...body }
  const seen: string[] = []
  protocol.text!.prompt(
    { json: (key) => made[key], set: (key, value) => void (made[key] = value) },
    ({ role = '', kind, text }) => {
      seen.push(`${role} ${kind}: ${text}`)
      return kind === 'arguments' || text.startsWith('{') ? text : text.toUpperCase()
    }
  )
  return { seen, made }
}

t.test('prompts show every text, by who says it', async (t) => {
  const messages = prompted(protocols.anthropic, {
    system: [{ type: 'text', text: 'help', cache_control: { type: 'ephemeral' } }],
    messages: [
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 's' },
          { type: 'text', text: 'yes' },
          { type: 'tool_use', id: 't', name: 'f', input: { a: 'x' } }
        ]
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 't',
            content: [
              { type: 'text', text: 'found' },
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'abc' } }
            ]
          },
          { type: 'document', title: 'paper', source: { type: 'text', media_type: 'text/plain', data: 'body' } },
          { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'part' }] } }
        ]
      }
    ]
  })
  t.strictSame(messages.seen, [
    'system text: help',
    'user text: hi',
    'assistant reasoning: hm',
    'assistant text: yes',
    'assistant arguments: {"a":"x"}',
    'tool text: found',
    'user text: paper',
    'user text: body',
    'user text: part'
  ])
  t.match(messages.made, {
    system: [{ text: 'HELP', cache_control: {} }],
    messages: [
      { content: 'HI' },
      { content: [{ thinking: 'HM', signature: 's' }, {}, { input: { a: 'x' } }] },
      {
        content: [
          { content: [{ text: 'FOUND' }, { source: { data: 'abc' } }] },
          { title: 'PAPER', source: { data: 'BODY' } },
          { source: { content: [{ text: 'PART' }] } }
        ]
      }
    ]
  })

  const gemini = prompted(protocols.gemini, {
    systemInstruction: { parts: [{ text: 'help' }] },
    contents: [
      { role: 'user', parts: [{ text: 'hi' }, { inlineData: { data: 'abc' } }] },
      { role: 'model', parts: [{ text: 'hm', thought: true }, { functionCall: { name: 'f', args: { a: 'x' } } }] },
      { role: 'user', parts: [{ functionResponse: { name: 'f', response: { output: 'found' } } }] }
    ]
  })
  t.strictSame(gemini.seen, [
    'system text: help',
    'user text: hi',
    'model reasoning: hm',
    'model arguments: {"a":"x"}',
    'tool text: {"output":"found"}'
  ])
  t.match(gemini.made, {
    systemInstruction: { parts: [{ text: 'HELP' }] },
    contents: [{ parts: [{ text: 'HI' }, { inlineData: { data: 'abc' } }] }, {}, {}]
  })
  t.strictSame(
    prompted(protocols['gemini-embed'], { requests: [{ model: 'm', content: { parts: [{ text: 'one' }] } }] }).seen,
    ['user text: one']
  )
  t.strictSame(prompted(protocols['anthropic-count'], { messages: [{ role: 'user', content: 'hi' }] }).seen, [
    'user text: hi'
  ])

  const responses = prompted(protocols['openai-responses'], {
    instructions: 'help',
    input: [
      { role: 'user', content: 'hi' },
      {
        type: 'message',
        role: 'user',
        content: [
          { type: 'input_text', text: 'there' },
          { type: 'input_image', image_url: 'data:' }
        ]
      },
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'e' },
      { type: 'function_call', name: 'f', call_id: 'c', arguments: '{"a":1}' },
      { type: 'function_call_output', call_id: 'c', output: 'found' }
    ]
  })
  t.strictSame(responses.seen, [
    'system text: help',
    'user text: hi',
    'user text: there',
    'assistant reasoning: hm',
    'assistant arguments: {"a":1}',
    'tool text: found'
  ])
  t.match(responses.made, {
    instructions: 'HELP',
    input: [
      { content: 'HI' },
      { content: [{ text: 'THERE' }, {}] },
      { encrypted_content: 'e' },
      { arguments: '{"a":1}' },
      { output: 'FOUND' }
    ]
  })
  t.strictSame(prompted(protocols['openai-responses'], { input: 'hi' }), {
    seen: ['user text: hi'],
    made: { input: 'HI' }
  })
  t.strictSame(prompted(protocols['openai-completions'], { prompt: ['a', 'b'], suffix: 'c' }), {
    seen: [' text: a', ' text: b', ' text: c'],
    made: { prompt: ['A', 'B'], suffix: 'C' }
  })
  t.throws(() => prompted(protocols['openai-completions'], { prompt: [1, 2] }), /tokens/)
})
