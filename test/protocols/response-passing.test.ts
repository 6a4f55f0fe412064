// Responses where they are passed on untranslated: what each event is, usage, and texts that are told several times.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { mostKept } from '../../core/protocols/canonical/codec.ts'
import { protocols } from '../../core/protocols/index.ts'
import { ResponseText } from '../../core/protocols/openai-responses/text.ts'
import type { AnswerText, TextPart } from '../../core/protocols/protocol.ts'

type Json = any

const { 'openai-responses': responses, 'openai-responses-kept': kept } = protocols
const json = (value: unknown): Message => new Message('json', Buffer.from(JSON.stringify(value)))
const event = (value: unknown, name?: string): Message =>
  Message.event(typeof value === 'string' ? value : JSON.stringify(value), name ?? (value as Json)?.type ?? '')
const nothing = { json: () => undefined } as Json

t.test('an event is content, an end or an error by its type, and by what went before', async (t) => {
  const kinds = (protocol: Json, ...events: Json[]): string[] => {
    const watch = protocol.watch(nothing)
    const seen = events.map((one) => watch.see(one instanceof Message ? one : event(one)) as string)
    return [...seen, ...(watch.finished && watch.complete ? ['finished'] : [])]
  }
  const typed = (...types: string[]): Json[] => types.map((type) => ({ type: `response.${type}` }))
  const begun = ['created', 'queued', 'in_progress', 'output_item.added', 'content_part.added']
  t.same(
    kinds(responses, ...typed(...begun)),
    begun.map(() => 'opening')
  )
  t.same(kinds(responses, ...typed('output_text.delta', 'created')), ['content', 'content'])
  for (const end of ['completed', 'incomplete', 'cancelled'])
    t.same(kinds(responses, ...typed(end)), ['end', 'finished'])
  t.same(kinds(responses, ...typed('failed')), ['error'])
  t.same(kinds(responses, ...typed('output_text.delta', 'failed')), ['content', 'end', 'finished'])
  t.same(
    kinds(kept, ...typed('created', 'failed')),
    ['content', 'end', 'finished'],
    'a stream that is taken up again has begun'
  )
  t.same(kinds(responses, event('none')), ['invalid'])
  t.same(kinds(responses, { type: 'response.completed' }, event('[DONE]')), ['end', 'content', 'finished'])
  for (const failed of [
    { type: 'error' },
    event({}, 'error'),
    { type: 'x', error: {} },
    { error: {} },
    { message: 'No.', code: 5 }
  ])
    t.same(kinds(responses, failed), ['error'])
  for (const none of [{ type: 'x', error: null }, { type: 'x', message: 'No.', code: 5 }, { type: 'ping' }])
    t.same(kinds(responses, none), ['opening'])
  t.same(kinds(responses, { type: 'response.output_text.delta', error: {} }), ['content'])
  const plain = (type: string): boolean => {
    const one = event({ type })
    responses.watch(nothing).see(one)
    return one.plain
  }
  t.strictSame(
    [plain('response.output_text.delta'), plain('response.completed'), plain('response.output_text.done')],
    [true, false, false]
  )
  t.strictSame(responses.watch(nothing).missing(event({}) as never), [])
})

t.test('a response is an answer with its output, and one that is kept is one in any case', async (t) => {
  for (const object of ['response', 'response.compaction']) t.ok(responses.isAnswer(json({ object, output: [] })))
  for (const body of [
    { object: 'response' },
    { output: [] },
    { object: 'list', output: [] },
    { object: 'response', output: {} }
  ])
    t.notOk(responses.isAnswer(json(body)))
  t.strictSame(
    [
      kept.isAnswer(json({})),
      kept.isAnswer(new Message('json', Buffer.alloc(0))),
      kept.isAnswer(new Message('json', Buffer.from('x')))
    ],
    [true, true, false]
  )
  const usage = { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
  for (const message of [json({ usage }), event({ usage }), event({ response: { usage } })])
    t.match(responses.readUsage(message), { input: 3, output: 4 })
  const plain = event({ response: { usage } })
  plain.plain = true
  for (const message of [plain, json({}), event('{"us\\u0061ge":{"input_tokens":3,"output_tokens":4}}')])
    t.equal(responses.readUsage(message), undefined)
  const large = `{"usage":${JSON.stringify({ ...usage, more: 'x'.repeat(70_000) })}}`
  t.equal(responses.readUsage(new Message('json', Buffer.from(large))), undefined, 'what is too large is not parsed')
  t.equal(kept.readUsage(json({ usage })), undefined)
  t.strictSame([responses.answerBytes({ delta: 'abc' }), kept.answerBytes({ delta: 'abc' })], [3, 0])
  t.equal(responses.answerBytes({ output: [{ content: [{ text: 'ab' }] }] }), 2)
  t.equal(responses.eventName!('{"type":"x"}'), 'x')
  t.equal(responses.readError({ response: { error: { message: 'No.' } } }).message, 'No.')
  t.equal(responses.readError({ response: { error: null }, error: { message: 'Yes.' } }).message, 'Yes.')
})

/** Puts every text in brackets, and says where each was. */
function editor(): Json {
  const places: string[] = []
  return {
    places,
    text: ({ block, kind, text }: TextPart) => (places.push(`${block} ${kind} ${text}`), `<${text}`),
    end: () => '>'
  }
}
const same = { text: ({ text }: TextPart) => text, end: () => '' }
const about = (type: string, more: Json): Json => ({ type: `response.${type}`, item_id: 'i', output_index: 0, ...more })

/** The events that are sent in place of these: those that are inserted, and the same event where nothing changes. */
function through(answer: AnswerText, by: Json, events: Json[]): Json[] {
  const made = events.flatMap((one) => {
    const message = one instanceof Message ? one : event(one)
    const changed = answer.event(message, by)
    if (!changed) return ['same']
    return [
      ...changed.before.map(({ event: name, data }) => ({ ...JSON.parse(data), inserted: name })),
      changed.data ? JSON.parse(String(changed.data)) : 'same'
    ]
  })
  return [...made, ...answer.end(by).map(({ event: name, data }) => ({ ...JSON.parse(data), inserted: name }))]
}
const edited = (...events: Json[]): Json[] => through(responses.text!.answer(), editor(), events)

t.test('a text is changed once, and its changed form repeated wherever it is told again', async (t) => {
  const delta = (text: string, more: Json = {}): Json =>
    about('output_text.delta', { content_index: 0, delta: text, ...more })
  const part = {
    type: 'output_text',
    text: 'ab',
    logprobs: [1],
    annotations: [{ start_index: 1, end_index: 2, url: 'u' }]
  }
  const shown = { ...part, text: '<a<b>', logprobs: [], annotations: [{ start_index: 0, end_index: 0, url: 'u' }] }
  const item = { type: 'message', content: [part] }
  const numbered = [
    delta('a', { logprobs: [1] }),
    delta('', {}),
    delta('b'),
    about('output_text.done', { content_index: 0, text: 'ab', logprobs: [1] }),
    about('content_part.done', { content_index: 0, part }),
    about('output_text.annotation.added', { content_index: 0, annotation: part.annotations[0] }),
    about('output_item.done', { item }),
    { type: 'response.completed', response: { id: 'r', output: [item] } }
  ].map((one, sequence_number) => ({ ...one, sequence_number }))
  const made = edited(...numbered)
  t.strictSame(made, [
    { ...numbered[0], delta: '<a', logprobs: [] },
    'same',
    { ...numbered[2], delta: '<b' },
    { ...numbered[2], logprobs: [], delta: '>', sequence_number: 3, inserted: 'response.output_text.delta' },
    { ...numbered[3], text: '<a<b>', logprobs: [], sequence_number: 4 },
    { ...numbered[4], part: shown, sequence_number: 5 },
    { ...numbered[5], annotation: shown.annotations[0], sequence_number: 6 },
    { ...numbered[6], item: { ...item, content: [shown] }, sequence_number: 7 },
    { ...numbered[7], response: { id: 'r', output: [{ ...item, content: [shown] }] }, sequence_number: 8 }
  ])
  t.strictSame(
    through(responses.text!.answer(), same, numbered),
    numbered.map(() => 'same')
  )
  t.strictSame(edited(about('output_text.annotation.added', { content_index: 0, annotation: part.annotations[0] })), [
    'same'
  ])
  t.strictSame(
    edited(about('output_text.done', { content_index: 0, text: 'a' })),
    [about('output_text.done', { content_index: 0, text: '<a>' })],
    'a text that comes at once has no deltas'
  )
  t.strictSame(edited(about('output_text.done', { content_index: 0, text: '' })), ['same'])
  t.strictSame(edited(about('new.delta', { delta: { a: 1 } })), ['same'])
  const spaced = about('output_text.done', { content_index: 0, text: 'a ' })
  t.strictSame(through(responses.text!.answer(), same, [delta('a'), spaced]), ['same', 'same'])
  t.strictSame(
    edited(
      delta('a'),
      { type: 'response.completed', response: { output: [] } },
      { type: 'response.completed', response: {} }
    ).slice(1, 3),
    ['same', 'same']
  )
  t.strictSame(
    edited(
      event('none'),
      { type: 'response.created', response: { output: [] } },
      { type: 'x', text: 'a' },
      about('audio.delta', { delta: 'AAAA' })
    ),
    ['same', 'same', 'same', 'same']
  )
  t.strictSame(
    edited(delta('a')).at(-1),
    { ...about('output_text.delta', { content_index: 0, delta: '>' }), inserted: 'response.output_text.delta' },
    'what no event ended'
  )
  t.strictSame(
    edited(about('output_item.added', { item: { type: 'message', content: [{ type: 'output_text', text: 'a' }] } })),
    [about('output_item.added', { item: { type: 'message', content: [{ type: 'output_text', text: '<a' }] } })]
  )
})

t.test('each kind of text of a response has a place of its own', async (t) => {
  const places = (...events: Json[]): string[] => {
    const by = editor()
    through(responses.text!.answer(), by, events)
    return by.places
  }
  const delta = (family: string, more: Json = {}): Json => about(`${family}.delta`, { delta: 'a', ...more })
  for (const [family, place] of [
    ['output_text', 'content.2 text'],
    ['refusal', 'content.2 refusal'],
    ['output_audio_transcript', 'content.2 text'],
    ['audio_transcript', 'content.2 text'],
    ['text', 'content.2 text'],
    ['reasoning_text', 'content.2 reasoning'],
    ['reasoning_summary_text', 'summary.3 reasoning'],
    ['function_call_arguments', 'arguments arguments'],
    ['mcp_call_arguments', 'arguments arguments'],
    ['custom_tool_call_input', 'input arguments'],
    ['code_interpreter_call_code', 'code arguments'],
    ['new_thoughts', 'new_thoughts reasoning']
  ] as const)
    t.strictSame(
      places(delta(family, { content_index: 2, summary_index: 3, output_index: 5 })),
      [`5.${place} a`],
      family
    )
  t.strictSame(places(delta('output_text', { content_index: 'x', output_index: 'y' })), ['0.content.0 text a'])
  const part = (type: string, more: Json): string[] =>
    places(about('content_part.done', { part: { type, text: 'a' }, ...more }))
  t.strictSame(part('output_text', { content_index: 1 }), ['0.content.1 text a'])
  t.strictSame(part('reasoning_text', { content_index: 1 }), ['0.content.1 reasoning a'])
  t.strictSame(part('summary_text', { summary_index: 1, content_index: 2 }), ['0.summary.1 reasoning a'])
  t.strictSame(edited(about('content_part.done', { content_index: 0, part: { type: 'new' } })), ['same'])
  for (const member of ['text', 'refusal', 'arguments', 'input', 'code', 'transcript'])
    t.strictSame(places(about('output_text.done', { [member]: 'a' })), ['0.content.0 text a'], member)
  const item = { type: 'reasoning', content: 'x', summary: [{ text: 'b' }, 5], output: 'y', arguments: '', code: 5 }
  t.strictSame(places(about('output_item.done', { item })), [
    '0.output text y',
    '0.content text x',
    '0.summary.0 reasoning b'
  ])
  const known = places(
    delta('reasoning_summary_text', { summary_index: 0 }),
    about('output_item.done', { item: { type: 'reasoning', summary: [{ text: 'a' }] } })
  )
  t.strictSame(known, ['0.summary.0 reasoning a'], 'what is repeated is no new text')
})

t.test('what is inserted has the ids of its text, and no more than 1024 characters of each', async (t) => {
  const inserted = (more: Json): Json =>
    edited(about('output_text.delta', { content_index: 0, delta: 'a', ...more })).at(-1)
  const [longest, long] = ['x'.repeat(1024), 'x'.repeat(1025)]
  t.match(inserted({ own: longest }), { own: longest, item_id: 'i' })
  t.notOk('own' in inserted({ own: long }))
  t.notOk('own' in inserted({ own: { a: 1 } }))
  t.equal(inserted({ own: 5 })['own'], 5)
  t.strictSame(inserted({ logprobs: [1] })['logprobs'], [])
  t.notOk('logprobs' in inserted({}))
  t.equal(inserted({ sequence_number: 7 })['sequence_number'], 8)
  t.equal(inserted({ sequence_number: 'x' })['sequence_number'], 1)
  t.notOk('sequence_number' in inserted({}))
  const done = (at: number, text: string): Json =>
    about('output_item.done', {
      output_index: at,
      item: { type: 'message', content: [{ text }] },
      sequence_number: 6 + at
    })
  const two = edited(
    about('output_text.delta', { content_index: 0, delta: 'a', sequence_number: 4 }),
    about('output_text.delta', { output_index: 1, content_index: 0, delta: 'b', sequence_number: 5 }),
    done(0, 'a'),
    done(1, 'b'),
    about('x', { sequence_number: 8 }),
    about('y', {})
  )
  t.strictSame(
    two.map((one) => one.sequence_number),
    [4, 5, 5, 7, 7, 9, 10, undefined]
  )
})

t.test('a response keeps 16 Mi characters of its text, less what is forgotten', async (t) => {
  const delta = (length: number, at = 0): Message =>
    event(about('output_text.delta', { output_index: at, content_index: 0, delta: 'a'.repeat(length) }))
  const text = new ResponseText()
  text.event(delta(mostKept - 1, 1), same)
  text.event(delta(1, 10), same)
  const refused = { message: /more than 16777216 characters/ }
  text.forget('1')
  text.event(delta(mostKept - 1, 2), same)
  const again: string[] = []
  const asks = { text: ({ text: said }: TextPart) => (again.push(said), said), end: () => '' }
  const once = event(about('output_text.done', { output_index: 10, content_index: 0, text: 'a' }))
  text.event(once, asks)
  t.strictSame(again, [], 'what was not forgotten is known')
  text.forget('10')
  text.event(once, asks)
  t.strictSame(again, ['a'], 'what was forgotten is new')
  t.throws(() => text.event(delta(1, 3), same), refused)
})

t.test('bytes that are not changed stay, and a body that no lens reads is written anew', async (t) => {
  const raw = (text: string): string => {
    const changed = responses.text!.answer().event(event(text, 'response.output_text.delta'), editor())
    return String(changed!.data)
  }
  const head = '{ "type":"response.output_text.delta","n":1.50,'
  t.equal(raw(`${head} "delta" : "a"}`), `${head} "delta" : "<a"}`)
  t.equal(
    raw(`{"n":1.50,"n":2.50,"type":"response.output_text.delta","delta":"a"}`),
    '{"n":2.5,"type":"response.output_text.delta","delta":"<a"}'
  )
  const whole = (body: Json, by: Json = editor()): Json => {
    const made = responses.text!.answer().whole(json(body), by)
    return made && JSON.parse(made.toString())
  }
  const message = { type: 'message', content: [{ type: 'output_text', text: 'a', logprobs: [1] }, 5] }
  t.strictSame(whole({ id: 'r', output: [message, 'x'] }), {
    id: 'r',
    output: [{ ...message, content: [{ type: 'output_text', text: '<a>', logprobs: [] }, 5] }, 'x']
  })
  t.strictSame(
    [whole({ output: [message] }, same), whole({ output: 5 }), whole({ output: [] }), whole([])],
    [undefined, undefined, undefined, undefined]
  )
})

t.test('every text of a prompt of Responses is found, with who says it', async (t) => {
  const found = (body: Json, edit = (text: string): string => `<${text}`): [string[], Json] => {
    const places: string[] = []
    const set: Json = {}
    responses.text!.prompt(
      { json: (key) => body[key], set: (key, value) => void (set[key] = value) },
      ({ block, kind, role, text }) => {
        places.push(`${block} ${kind} ${role} ${text}`)
        return edit(text)
      }
    )
    return [places, set]
  }
  t.strictSame(found({ instructions: 'i', input: 'a' }), [
    ['instructions text system i', 'input text user a'],
    { instructions: '<i', input: '<a' }
  ])
  const input = [
    { role: 'user', content: 'a' },
    { type: 'function_call', arguments: '{}' },
    { type: 'function_call_output', output: 'b' },
    { type: 'custom_tool_call_output', output: [{ text: 'c' }] },
    { type: 'mcp_call', output: 'd' },
    5
  ]
  t.strictSame(found({ input })[0], [
    '0.content text user a',
    '1.arguments arguments assistant {}',
    '2.output text tool b',
    '3.output.0 text tool c',
    '4.output text tool d'
  ])
  t.strictSame(found({ input })[1].input[0], { role: 'user', content: '<a' })
  t.strictSame(found({ instructions: 'i', input }, (text) => text)[1], {})
  t.strictSame(found({ instructions: 5, input: { a: 1 } }), [[], {}])
})
