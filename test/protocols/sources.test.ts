// Texts that come in pieces: what their sources are for, what is one text for a client, and characters and numbers that
// stay whole.
import t from 'tap'
import { answered, streamed } from '../kit/pairs.ts'

type Json = any

const source = { url: 'https://a.example/x', title: 'X' }
const usage = { input_tokens: 1, output_tokens: 2, total_tokens: 3 }
const inMessages = { type: 'web_search_result_location', ...source, cited_text: 'c', encrypted_index: 'e' }

/** A text, and a claim with its source, as blocks of a message. */
const message = {
  id: 'msg',
  type: 'message',
  role: 'assistant',
  content: [
    { type: 'text', text: 'Intro. ' },
    { type: 'text', text: 'Claim.', citations: [inMessages] }
  ],
  stop_reason: 'end_turn',
  usage
}
const block = (index: number, ...deltas: Json[]): Json[] => [
  { type: 'content_block_start', index, content_block: { type: 'text', text: '' } },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index }
]
const messageEvents = [
  { type: 'message_start', message: { ...message, content: [] } },
  ...block(0, { type: 'text_delta', text: 'Intro. ' }),
  ...block(
    1,
    { type: 'citations_delta', citation: inMessages },
    { type: 'text_delta', text: 'Cl' },
    { type: 'text_delta', text: 'aim.' }
  ),
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage },
  { type: 'message_stop' }
]

/** Likewise, as two parts of one message of a response. */
const annotation = { type: 'url_citation', ...source, start_index: 0, end_index: 6 }
const parts = [
  { type: 'output_text', text: 'Intro. ', annotations: [] },
  { type: 'output_text', text: 'Claim.', annotations: [annotation] }
]
const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: parts }
const response = { id: 'resp', status: 'completed', output: [item], usage }
const at = (content_index: number): Json => ({ item_id: 'msg_1', output_index: 0, content_index })
const responseEvents = (told: boolean): Json[] => [
  { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
  { type: 'response.output_item.added', output_index: 0, item: { ...item, content: [] } },
  ...parts.flatMap((part, index) => [
    { type: 'response.content_part.added', ...at(index), part: { ...part, text: '', annotations: [] } },
    { type: 'response.output_text.delta', ...at(index), delta: part.text },
    ...(told
      ? part.annotations.map((one, annotation_index) => ({
          type: 'response.output_text.annotation.added',
          ...at(index),
          annotation_index,
          annotation: one
        }))
      : []),
    { type: 'response.content_part.done', ...at(index), part }
  ]),
  { type: 'response.output_item.done', output_index: 0, item },
  { type: 'response.completed', response }
]

const seen: Readonly<Record<string, { whole: (body: Json) => Json; events: (events: Json[]) => Json }>> = {
  C: {
    whole: ({
      choices: [
        {
          message: { content, annotations }
        }
      ]
    }) => ({ content, annotations }),
    events: (events) => {
      const deltas = events.flatMap((event) => event.choices?.[0]?.delta ?? [])
      return {
        content: deltas.map(({ content }) => content ?? '').join(''),
        annotations: deltas.flatMap(({ annotations }) => annotations ?? [])
      }
    }
  },
  R: {
    whole: ({ output }) => output.map(({ content }: Json) => content),
    events: (events) => events.at(-1).response.output.map(({ content }: Json) => content)
  }
}
const inWhole = { start_index: 7, end_index: 13 }
const expected: Readonly<Record<string, Json>> = {
  C: { content: 'Intro. Claim.', annotations: [{ type: 'url_citation', url_citation: { ...source, ...inWhole } }] },
  R: [
    [
      {
        type: 'output_text',
        text: 'Intro. Claim.',
        annotations: [{ type: 'url_citation', ...source, ...inWhole }],
        logprobs: []
      }
    ]
  ]
}

t.test('a source is of the same words, whole and streamed, in however many parts the text came', async (t) => {
  for (const client of 'CR') {
    t.same(seen[client]!.whole(answered(`M⇒${client}`, message).body), expected[client], `M⇒${client}`)
    t.same(
      seen[client]!.events(streamed(`M⇒${client}`, messageEvents).events),
      expected[client],
      `M⇒${client}, streamed`
    )
  }
  t.same(seen['C']!.whole(answered('R⇒C', response).body), expected['C'])
  for (const told of [true, false])
    t.same(
      seen['C']!.events(streamed('R⇒C', responseEvents(told)).events),
      expected['C'],
      told ? 'told as they come' : 'told with the whole'
    )
})

t.test('sources of a chat upstream are of its whole text, whatever stands between', async (t) => {
  const delta = (more: Json, finish_reason: string | null = null): Json => ({
    choices: [{ index: 0, delta: more, finish_reason }]
  })
  const cited = { annotations: [{ type: 'url_citation', url_citation: { ...source, ...inWhole } }] }
  const { events } = streamed('C⇒R', [
    delta({ content: 'Intro. ' }),
    delta({ reasoning_content: 'Hm' }),
    delta({ content: 'Claim.' }),
    delta(cited),
    delta({}, 'stop')
  ])
  t.match(events.at(-1).response.output, [
    { type: 'message' },
    { type: 'reasoning' },
    { type: 'message', content: [{ text: 'Claim.', annotations: [{ ...source, start_index: 0, end_index: 6 }] }] }
  ])
})

t.test('events of a text that goes on are those of one text', async (t) => {
  const { events } = streamed('M⇒R', messageEvents)
  const types = events.map(({ type }) => type.replace('response.', ''))
  t.same(types, [
    'created',
    'in_progress',
    'output_item.added',
    'content_part.added',
    'output_text.delta',
    'output_text.delta',
    'output_text.delta',
    'output_text.annotation.added',
    'output_text.done',
    'content_part.done',
    'output_item.done',
    'completed'
  ])
  t.match(events[8], { text: 'Intro. Claim.' })
})

t.test('a character that comes in two halves is told as one', async (t) => {
  const delta = (more: Json, finish_reason: string | null = null): Json => ({
    choices: [{ index: 0, delta: more, finish_reason }]
  })
  const call = (args: string): Json =>
    delta({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: args } }] })
  const halves = [
    delta({ content: 'a\ud83d' }),
    delta({ content: '\ude00b\ud83d' }),
    call('{"x":"\ud83d'),
    call('\ude00"}'),
    delta({}, 'tool_calls')
  ]
  const { events } = streamed('C⇒M', halves)
  const told = events.flatMap((event) => event.delta?.text ?? event.delta?.partial_json ?? [])
  t.same(told, ['a', '😀b', '\ud83d', '{"x":"', '😀"}'], 'and half of one, with nothing to come, as it is')
})

t.test('arguments keep their digits in streams that tell them as an object', async (t) => {
  const id = '12345678901234567890'
  const chunk = `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"id":${id}}}}]},"finishReason":"STOP"}]}`
  t.match(JSON.stringify(streamed('G⇒C', [chunk]).events), id)
  const start = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"id":${id}}}}`
  const { events } = streamed('M⇒C', [
    messageEvents[0],
    start,
    { type: 'content_block_stop', index: 0 },
    ...messageEvents.slice(-2)
  ])
  t.match(JSON.stringify(events), id)
})
