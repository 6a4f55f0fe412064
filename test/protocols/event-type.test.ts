// What an event of a stream is, where its name says something else than its data: all readers take the type in the
// data, as all SDKs do, and only `error` counts as a name.
import t from 'tap'
import { Message } from '../../core/contract/contract.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { StreamWatch } from '../../core/protocols/protocol.ts'

type Json = Record<string, unknown>
type Speaker = 'anthropic' | 'openai-responses'

/** What an answer begins with, the words that follow, and the members of an event that ends it. */
const answers: Record<Speaker, { begin: Json[]; words: (text: string) => Json; end: Json[] }> = {
  anthropic: {
    begin: [
      { type: 'message_start', message: { id: 'msg_1', role: 'assistant', content: [], usage: { input_tokens: 1 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }
    ],
    words: (text) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
    end: [
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
      { type: 'message_stop' }
    ]
  },
  'openai-responses': {
    begin: [
      { type: 'response.created', response: { id: 'resp_1', status: 'in_progress', output: [] } },
      { type: 'response.output_item.added', output_index: 0, item: { type: 'message', id: 'msg_1', content: [] } }
    ],
    words: (delta) => ({
      type: 'response.output_text.delta',
      item_id: 'msg_1',
      output_index: 0,
      content_index: 0,
      delta
    }),
    end: [
      {
        type: 'response.completed',
        response: {
          id: 'resp_1',
          status: 'completed',
          output: [{ type: 'message', id: 'msg_1', content: [{ type: 'output_text', text: 'abcd' }] }]
        }
      }
    ]
  }
}

const named = (event: Json, name = String(event['type'])): Message => Message.event(JSON.stringify(event), name)

/** What a client of the protocol and a translator make of a stream. */
function readings(speaker: Speaker, events: readonly Message[]) {
  const watch: StreamWatch = protocols[speaker].watch(new Message('json', Buffer.from('{}')).lens as never)
  const kinds = events.map((event) => watch.see(event))
  const decoder = codecs[speaker].decodeStream('id')
  let said = ''
  let broken = false
  try {
    for (const event of events) decoder.push(event, (told) => 'text' in told && (said += told.text))
  } catch {
    broken = true
  }
  return { kinds, finished: watch.finished, said, broken, decoded: !broken && decoder.finished() }
}

for (const speaker of Object.keys(answers) as Speaker[]) {
  const { begin, words, end } = answers[speaker]
  // So many words that a reader has seen what they are like.
  const begun = [...begin, words('a'), words('b'), words('c')].map((event) => named(event))

  t.test(`${speaker}: a name says nothing of what the data says`, async (t) => {
    for (const name of ['', 'ping', 'made.up', String(end.at(-1)!['type'])]) {
      const cut = readings(speaker, [...begun, named(words('d'), name)])
      t.match(cut, { said: 'abcd', broken: false, finished: false, decoded: false }, `words named ${name}`)
      t.equal(cut.kinds.at(-1), 'content', name)
      const whole = readings(speaker, [...begun, named(words('d'), name), ...end.map((event) => named(event, name))])
      t.match(whole, { said: 'abcd', broken: false, finished: true, decoded: true }, `an end named ${name}`)
    }
  })

  t.test(`${speaker}: what the data says counts, though all else is like the words before`, async (t) => {
    const like = words('d')
    const name = String(like['type'])
    const failed = readings(speaker, [...begun, named({ ...like, type: 'error' }, name)])
    t.equal(failed.kinds.at(-1), 'error')
    t.ok(failed.broken, 'it is an error for a translator')
    const last = String(end.at(-1)!['type'])
    const ended = readings(speaker, [...begun, named({ ...like, type: last, response: { output: [] } }, name)])
    t.equal(ended.kinds.at(-1), 'end')
    const unknown = readings(speaker, [...begun, named({ ...like, type: 'made.up' }, name)])
    t.equal(unknown.said, 'abc', 'a type that nobody knows has no words')
  })

  t.test(`${speaker}: what is named an error is one, whatever its data says`, async (t) => {
    const failed = readings(speaker, [...begun, named(words('d'), 'error')])
    t.equal(failed.kinds.at(-1), 'error')
    t.ok(failed.broken)
    t.equal(failed.said, 'abc')
  })

  t.test(`${speaker}: an event whose data has no type ends nothing`, async (t) => {
    const untyped = end.map(({ type, ...rest }) => named(rest, String(type)))
    t.match(readings(speaker, [...begun, ...untyped]), { finished: false, decoded: false, broken: false })
  })
}

t.test('anthropic: an end that is written like the words before it is the end', async (t) => {
  const { begin, words } = answers.anthropic
  const like = (type: string): Message => named({ ...words('x'), type }, 'content_block_delta')
  const watch = protocols.anthropic.watch(new Message('json', Buffer.from('{}')).lens as never)
  for (const event of [...begin, words('a'), words('b')]) watch.see(named(event))
  t.equal(watch.see(like('message_stop')), 'end')
  const escaped = Message.event(
    '{"t\\u0079pe":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}',
    'content_block_delta'
  )
  t.equal(watch.see(escaped), 'content')
  t.equal(
    watch.see(Message.event(escaped.data.toString().replace('content_block_delta', 'error'), 'content_block_delta')),
    'error'
  )
})
