// Streams that lie: errors in every dress, events that are none, ends that are missing, late or doubled, and silence.
import { constants } from 'node:http2'
import { finished } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { connect } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { openSession } from '../kit/http2.ts'
import { settled, stopwatch } from '../kit/probe.ts'
import { checkChatStream, readEvents } from '../kit/sse.ts'
import { bytes, chunk, endOfBody, events, fin, head, pause, reset, stall, until, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import {
  afterContent,
  base,
  before,
  billed,
  completion,
  delta,
  done,
  finish,
  one,
  opening,
  patient,
  sse,
  two,
  usage,
  whole
} from './vendor.ts'

t.setTimeout(600_000)

const leaked = /upstream-secret/
const words = 'Overloaded, says the one with the key upstream-secret-of-vendor.'
const line = (payload: string, name = ''): string => `${name && `event: ${name}\n`}data: ${payload}\n\n`
const choice = (more: object): object => ({ index: 0, delta: { content: '' }, finish_reason: null, ...more })

/** Those of all requests, once they are settled; the books are in order. */
async function records(t: Test, local: LocalGateway): Promise<object[]> {
  await settled(t, local)
  return (await local.admin('/admin/v1/requests?limit=100')).data
}

/** An error as gateways and vendors send it in the midst of a stream. */
const errors: Readonly<Record<string, unknown>> = {
  alone: { error: { message: words } },
  'behind an id': { id: 'chatcmpl-1', error: { message: words, code: 502 } },
  'behind a space': line(`{ "error" : ${JSON.stringify({ message: words })} }`),
  'as text': { error: words },
  "by the event's name, with words": line(JSON.stringify({ message: words }), 'error'),
  "by the event's name, with text": line(words, 'error'),
  "by the event's name, with a chunk": line(
    JSON.stringify({ ...base, choices: [choice({ delta: { content: words } })] }),
    'error'
  ),
  'beside choices': { ...base, choices: [choice({})], error: { message: words } },
  'beside a finish': { ...base, choices: [choice({ finish_reason: 'stop' })], error: { message: words } },
  'in a choice': { ...base, choices: [choice({ error: { message: words }, finish_reason: 'error' })] },
  'as a reason to finish': { ...base, choices: [choice({ finish_reason: 'error' })] },
  'as an object': { object: 'error', message: words, type: 'InternalServerError', code: 500 },
  'as a type': { type: 'error', error: { type: 'overloaded_error', message: words } },
  'in an array': line(JSON.stringify([{ error: { message: words, status: 'UNAVAILABLE' } }])),
  'as details': { detail: [{ msg: words }] },
  'as a line without a field': `${JSON.stringify({ error: { message: words } })}\n\n`,
  'as a line before an event': `${JSON.stringify({ error: { message: words } })}\n${line(JSON.stringify({ ...base, choices: [choice({})] }))}`,
  'as a line behind an event': `data: ${JSON.stringify({ ...base, choices: [choice({})] })}\n${JSON.stringify({ message: words })}\n\n`,
  'as a line that runs into an event': `${JSON.stringify({ error: { message: words } })}${line(JSON.stringify({ ...base, choices: [choice({})] }))}`,
  'as a list': { success: false, errors: [{ code: 1000, message: words }] }
}

t.test('an error in mid-stream is an error, whatever it looks like', async (t) => {
  const { local, vendor } = await before(t, one, patient)
  for (const [what, event] of Object.entries(errors)) {
    const reply = await afterContent(local, vendor, [events([event, done]), endOfBody()])
    const answer = checkChatStream(reply.body, { error: true })
    t.match(answer.choices, [{ content: 'So far', finish: undefined }], what)
    t.notMatch(reply.text, leaked, what)
  }
  for (const record of await records(t, local))
    t.match(record, { outcome: 'failed', error_code: 'upstream_bad_response', usage_source: 'partial' })
  const { data } = await local.admin('/admin/v1/channels')
  t.match(data[0].health, { successes: 0, failures: Object.keys(errors).length })
})

t.test('an error before anything else leads to another channel', async (t) => {
  const forms = Object.entries(errors)
  // A few for each gateway, as one leaves out a channel that fails so often.
  for (let from = 0; from < forms.length; from += 8) {
    await t.test(`forms ${from} and on`, async (t) => {
      const { local, first, second } = await before(t, two, patient)
      for (const [what, event] of forms.slice(from, from + 8)) {
        for (const stream of [true, false]) {
          first.script(sse, events([opening, event, done]), endOfBody())
          if (stream) second.sse(whole)
          else second.json(completion)
          const reply = await local.chat({ stream })
          t.equal(reply.status, 200, what)
          if (stream) t.match(checkChatStream(reply.body).choices, [{ content: 'All well' }], what)
          else t.same(reply.json(), completion, what)
        }
      }
      for (const record of await records(t, local))
        t.match(record, { outcome: 'completed', attempts: [{ channel: 'first' }, { channel: 'second' }] })
    })
  }
})

t.test('what an upstream says by its code is heard also in a stream: whose fault it is', async (t) => {
  const { local, vendor } = await before(t, one, patient)
  const cases: [error: object, status: number, shown: object][] = [
    [
      { message: 'This is too long.', code: 'context_length_exceeded', type: 'invalid_request_error' },
      400,
      { message: 'This is too long.', code: 'context_length_exceeded' }
    ],
    [{ message: 'This is too long.', code: 400 }, 400, { message: 'This is too long.' }],
    [
      {
        message: 'Incorrect API key provided: sk-of-ours-00000',
        code: 'invalid_api_key',
        type: 'invalid_request_error'
      },
      502,
      { code: 'upstream_auth_failed', message: /^The upstream refused/ }
    ],
    [
      { message: 'Slow down.', type: 'rate_limit_exceeded' },
      429,
      { code: 'upstream_rate_limited', message: /rate limiting/ }
    ]
  ]
  for (const [error, status, shown] of cases) {
    vendor.script(sse, events([{ error }]), endOfBody())
    const reply = await local.chat({ stream: true })
    t.equal(reply.status, status)
    t.match(reply.json().error, shown)
  }
})

/** What is no event of a chat stream, or no longer one. */
const malformed: Readonly<Record<string, unknown>> = {
  'an unfinished value': line('{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":" lost}'),
  'a brace too few': line(JSON.stringify(delta(' lost')).slice(0, -1)),
  'a quote too few': line(JSON.stringify(delta(' lost')).replace(' lost"', ' lost')),
  'a control character': line(JSON.stringify(delta(' lost')).replace('lost', 'lo\u0001st')),
  'a bad escape': line(JSON.stringify(delta(' lost')).replace('lost', 'lo\\xst')),
  'half an escape': line(JSON.stringify(delta(' lost')).replace('lost', '\\ud83')),
  text: line('Internal Server Error'),
  'a number': line('42'),
  'two events in one': line(JSON.stringify(delta(' lost')) + JSON.stringify(delta(' too')))
}

t.test('an event that is none is neither passed on nor passed over', async (t) => {
  const { local, vendor } = await before(t, one, patient)
  for (const [what, event] of Object.entries(malformed)) {
    for (const stream of [true, false]) {
      const steps = [events([event, delta(' on'), finish, usage, done]), endOfBody()]
      if (!stream) vendor.script(sse, events([opening, delta('So far')]), ...steps)
      const reply = stream ? await afterContent(local, vendor, steps) : await local.chat()
      if (stream)
        t.match(checkChatStream(reply.body, { error: true }).choices, [{ content: 'So far', finish: undefined }], what)
      else t.equal(reply.status, 502, what)
    }
  }
  for (const record of await records(t, local))
    t.match(record, { outcome: 'failed', error_code: 'upstream_bad_response' })
})

t.test('collected, what broke in the midst of a stream is given by another channel', async (t) => {
  const { local, first, second } = await before(t, two, patient)
  const broken: Record<string, Step[]> = {
    'an event that is none': [events([malformed['a brace too few'], finish, done]), endOfBody()],
    'an error': [events([errors['beside a finish'], done]), endOfBody()],
    'no finish': [events([done]), endOfBody()],
    'a reset': [reset()]
  }
  for (const [what, steps] of Object.entries(broken)) {
    first.script(sse, events([opening, delta('So far')]), ...steps)
    second.json(completion)
    const reply = await local.chat()
    t.same(reply.json(), completion, what)
  }
  for (const record of await records(t, local)) t.match(record, { outcome: 'completed', channel: 'second' })
})

t.test('what broke before it was shown is given by another channel, however much of it has come', async (t) => {
  const { local, first, second } = await before(t, two, patient)
  for (const last of [errors['behind an id'], malformed['text'], done]) {
    // All in one read.
    first.script(sse, events([opening, delta('So far'), last], 'one'), endOfBody())
    second.sse(whole)
    const reply = await local.chat({ stream: true })
    t.match(checkChatStream(reply.body).choices, [{ content: 'All well', finish: 'stop' }])
  }
})

t.test('a body without an answer in it is no answer', async (t) => {
  const { local, first, second } = await before(t, two, patient)
  const empty: unknown[] = [
    { ...completion, choices: [] },
    { ...completion, choices: null },
    { ...completion, choices: [null] },
    { ...completion, choices: [{ index: 0 }] },
    { ...completion, choices: [{ index: 0, message: null, finish_reason: 'stop' }] },
    { ...completion, choices: [{ ...completion.choices[0], error: { message: words } }] },
    { ...completion, choices: [{ ...completion.choices[0], finish_reason: 'error' }] },
    { ...completion, error: words }
  ]
  for (const body of empty) {
    for (const stream of [false, true]) {
      first.json(body)
      second.json(completion)
      const reply = await local.chat({ stream })
      if (stream)
        t.match(checkChatStream(reply.body).choices, [{ content: 'All well', finish: 'stop' }], JSON.stringify(body))
      else t.same(reply.json(), completion, JSON.stringify(body))
    }
  }
})

t.test('an end marker is no end while a choice has none', async (t) => {
  const { local, vendor } = await before(t, one, patient)
  const second = (event: any): unknown => ({ ...event, choices: [{ ...event.choices[0], index: 1 }] })
  const cases: [events: unknown[], n: number][] = [
    [[], 1],
    [[usage], 1],
    [[second(opening), second(delta('too')), finish], 2],
    [[{ ...base, choices: [choice({ finish_reason: '' })] }], 1]
  ]
  for (const [list, n] of cases) {
    for (const stream of [true, false]) {
      const steps = [events([...list, done]), endOfBody()]
      if (!stream) vendor.script(sse, events([opening, delta('So far')]), ...steps)
      const reply = stream ? await afterContent(local, vendor, steps, { n }) : await local.chat({ n })
      if (stream) t.equal(checkChatStream(reply.body, { n, error: true }).error!.code, 'upstream_stream_interrupted')
      else t.equal(reply.json().error.code, 'upstream_stream_interrupted')
    }
  }
  for (const record of await records(t, local)) t.match(record, { outcome: 'failed' })
})

t.test('what is legal, if odd, passes', async (t) => {
  const { local, vendor } = await before(t, one, patient)
  const filter = {
    id: '',
    object: '',
    created: 0,
    model: '',
    prompt_filter_results: [{ prompt_index: 0, content_filter_results: { hate: { filtered: false } } }],
    choices: []
  }
  const sure = (event: any): unknown => ({ ...event, error: null })
  const unfinished = (event: any): unknown => ({
    ...event,
    choices: event.choices.map((one: any) => ({ ...one, finish_reason: one.finish_reason ?? '' }))
  })
  const sound = (audio: object): unknown => ({ ...base, choices: [choice({ delta: { role: 'assistant', audio } })] })
  const odd: Record<string, unknown[]> = {
    "a filter's results before everything": [filter, ...whole],
    'an error that is null': whole.map(sure),
    'a reason that is empty until there is one': whole.map(unfinished),
    'heartbeats and unknown events': [
      opening,
      ': ping\n\n',
      delta('All'),
      'event: keepalive\ndata: \n\n',
      ': ping\n\n',
      { type: 'ping' },
      delta(' well'),
      finish,
      usage
    ],
    'the word error in what is said': [opening, delta('{"error":"none"}'), delta('\\"error\\":{}'), finish, usage],
    'sound that ends with when it expires': [
      sound({ id: 'a', data: 'AAAA' }),
      sound({ data: 'BBBB' }),
      sound({ expires_at: 1 })
    ]
  }
  for (const [what, list] of Object.entries(odd)) {
    vendor.sse(list)
    const reply = await local.chat({ stream: true, stream_options: { include_usage: true } })
    t.equal(readEvents(reply.body).at(-1)?.data, '[DONE]', what)
  }
  for (const record of await records(t, local)) t.match(record, { outcome: 'completed' })
})

t.test('what came while the loop stood still belongs to the answer, although its end took long', async (t) => {
  const { local, vendor } = await before(t, one, patient)
  for (const [quietMs, stillMs] of [
    [100, 2500],
    [1200, 700]
  ] as const) {
    const { promise, resolve } = Promise.withResolvers<void>()
    vendor.script(
      sse,
      events([opening, delta('All'), delta(' well'), finish]),
      until(promise),
      events([usage, done]),
      endOfBody()
    )
    const client = await local.openChat({ stream: true, stream_options: { include_usage: true } })
    await client.body('"stop"')
    // The end is due from the next look on. Behind an immediate, timers come before what was sent meanwhile.
    await sleep(quietMs)
    await new Promise(setImmediate)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stillMs)
    resolve()
    const reply = await client.reply()
    t.match(reply.text, /"total_tokens":18/)
    t.match(await local.record(reply), { usage_source: 'upstream', usage: billed })
  }
})

t.test('when the answer is whole, silence ends it within two seconds, as it should end', async (t) => {
  const { local, vendor } = await before(t, one, patient)
  const cases: [what: string, steps: Step[], source: string][] = [
    ['at once', [stall()], 'estimated'],
    ['after the usage', [events([usage]), stall()], 'upstream'],
    ['with heartbeats', Array.from({ length: 30 }, () => [events([': ping\n\n']), pause(100)]).flat(), 'estimated'],
    ['with a lost connection', [fin()], 'estimated'],
    ['with a reset', [reset()], 'estimated'],
    ['in half an event', [chunk('data: {"id":"chatcmpl-1","choi'), fin()], 'estimated'],
    ['in half an end marker', [chunk('data: [DO'), endOfBody()], 'estimated']
  ]
  const endings: Promise<void>[] = []
  let sent = 0
  for (const [what, steps, source] of cases) {
    for (const stream of [true, false]) {
      vendor.script(sse, events([opening, delta('All'), delta(' well'), finish]), ...steps)
      const began = stopwatch()
      const ending = local.chat({ stream }).then(async (reply) => {
        const took = began.ms
        t.ok(took < 4000, `${what}: ${took} ms`)
        if (stream) t.match(checkChatStream(reply.body).choices, [{ content: 'All well', finish: 'stop' }], what)
        else t.match(reply.json().choices, [{ message: { content: 'All well' }, finish_reason: 'stop' }], what)
        t.match(
          await local.record(reply),
          { outcome: 'completed', usage_source: source, ...(source === 'upstream' && { usage: billed }) },
          what
        )
      })
      const { connection } = await vendor.request(sent++)
      endings.push(ending)
      if (steps.length > 2 || what === 'at once' || what === 'after the usage')
        endings.push(connection.closed.then(({ by }) => void t.equal(by, 'peer', what)))
    }
  }
  await Promise.all(endings)

  // One answer of two is not all that was asked for.
  vendor.script(
    sse,
    events([opening, delta('All well'), finish]),
    pause(2200),
    events([
      { ...base, choices: [{ index: 1, delta: { role: 'assistant', content: 'Second' }, finish_reason: 'stop' }] },
      done
    ]),
    endOfBody()
  )
  t.match(checkChatStream((await local.chat({ stream: true, n: 2 })).body, { n: 2 }).choices, [
    { content: 'All well' },
    { content: 'Second' }
  ])
})

t.test('a last event without its blank line is an event, at a clean end', async (t) => {
  const { local, vendor } = await before(t, one, patient)
  for (const list of [
    [opening, delta('All well'), finish, usage, 'data: [DONE]'],
    [opening, delta('All well'), finish, usage, 'data: [DONE]\n'],
    [opening, delta('All well'), finish, `data: ${JSON.stringify(usage)}`],
    [opening, delta('All well'), usage, `data: ${JSON.stringify(finish)}\n`]
  ]) {
    vendor.script(sse, events(list), endOfBody())
    const reply = await local.chat({ stream: true })
    t.match(checkChatStream(reply.body).choices, [{ content: 'All well', finish: 'stop' }])
  }
  for (const record of await records(t, local)) t.match(record, { outcome: 'completed', usage: billed })
})

t.test('heartbeats are no answer, and a large event in pieces is no silence', async (t) => {
  const { local, vendor } = await before(t, one, { channels: { vendor: { timeouts: { idle: '300ms' } } } })
  const heartbeats = [': ping\n\n', ':\n\n', 'event: keepalive\ndata: \n\n', 'data\n\n']
    .map((beat) => [chunk(beat), pause(80)])
    .flat()
  vendor.script(
    sse,
    events([opening, delta('So far')]),
    ...Array.from({ length: 16 }, () => heartbeats).flat(),
    stall()
  )
  const began = stopwatch()
  const reply = await local.chat({ stream: true })
  t.equal(checkChatStream(reply.body, { error: true }).error!.code, 'upstream_timeout_idle')
  t.ok(began.ms < 4000, `${began.ms} ms`)

  const long = `data: ${JSON.stringify(delta('x'.repeat(1000)))}\n\n`
  const pieces = Array.from({ length: 8 }, (_, i) => [chunk(long.slice(i * 150, (i + 1) * 150)), pause(80)]).flat()
  vendor.script(sse, events([opening, delta('So far')]), ...pieces, events([finish, done]), endOfBody())
  t.equal(checkChatStream((await local.chat({ stream: true })).body).choices[0]!.content.length, 1006)
})

t.test('an answer that is not streamed has a first byte of its own, and from then on its time in total', async (t) => {
  const { local, vendor } = await before(t, one, {
    channels: { vendor: { timeouts: { first_byte: '200ms', idle: '200ms', first_byte_whole: '1s', total: '4s' } } }
  })
  const text = JSON.stringify(completion)
  const json = head(200, { 'content-type': 'application/json', 'content-length': String(text.length) })
  const slow: Record<string, [Step[], stream: boolean]> = {
    'its head is late': [[pause(500), json, bytes(text)], false],
    'its body is late': [[json, pause(500), bytes(text)], false],
    'it comes in pieces': [[json, bytes(text.slice(0, 50)), pause(500), bytes(text.slice(50))], false],
    'it comes as a stream after all': [[pause(300), sse, pause(300), events([...whole, done]), endOfBody()], false],
    'it comes where a stream was asked for': [[json, pause(500), bytes(text)], true],
    'it has begun in time': [[json, bytes(text.slice(0, 50)), pause(1300), bytes(text.slice(50))], false]
  }
  for (const [what, [steps, stream]] of Object.entries(slow)) {
    vendor.script(...steps)
    const reply = await local.chat({ stream })
    t.equal(reply.status, 200, what)
    t.match(reply.text, stream ? /\[DONE\]/ : /All well/, what)
  }
  vendor.script(json, bytes(text.slice(0, 50)), stall())
  const late = await local.chat()
  t.equal(late.status, 504)
  t.equal(late.json().error.code, 'upstream_timeout_total')
  t.equal(late.headers['x-should-retry'], 'false', 'it would cost as much again')
  t.equal(vendor.requests.length, 7)
})

t.test('silence before a whole answer leads to the next channel, once', async (t) => {
  const names = ['first', 'second', 'third'] as const
  const within = (first_byte_whole: string): object => ({ timeouts: { first_byte_whole } })
  const { local, first, second, third } = await before(t, names, {
    ...patient,
    channels: { first: within('300ms'), second: within('2s'), third: within('2s') }
  })
  const json = head(200, { 'content-type': 'application/json' })
  const silent: Record<string, Step[]> = {
    'nothing at all': [stall()],
    'a head': [json, stall()],
    'a head and white space, by which some show that they are there': [
      json,
      chunk(' \n'),
      pause(50),
      chunk('\n'),
      stall()
    ],
    'a stream that does not begin': [sse, events([opening]), stall()]
  }
  for (const [what, steps] of Object.entries(silent)) {
    first.script(...steps)
    second.json(completion)
    const reply = await local.chat()
    t.same(reply.json(), completion, what)
    t.match((await local.record(reply)).attempts, [
      { channel: 'first', error_code: 'upstream_timeout_first_byte' },
      { channel: 'second', status: 200 }
    ])
  }
  first.script(stall())
  second.script(json, stall())
  const late = await local.chat()
  t.match([late.status, late.json().error.code], [504, 'upstream_timeout_first_byte'])
  t.equal(late.headers['x-should-retry'], 'false', 'a library would wait as long again')
  t.equal(third.requests.length, 0)
  first.script(sse, pause(600), events([...whole, done]), endOfBody())
  t.match(checkChatStream((await local.chat({ stream: true })).body).choices, [{ content: 'All well' }])
  await settled(t, local)
})

t.test("an error's status is enough when its body does not end", async (t) => {
  const { local, first, second } = await before(t, two, patient)
  first.script(head(500, { 'content-type': 'application/json' }), chunk('{"error":'), stall())
  second.json(completion)
  const began = stopwatch()
  t.equal((await local.chat()).status, 200)
  t.ok(began.ms < 3000)
  await settled(t, local)
})

t.test('a stream that makes no answer when it is put together is the fault of the upstream', async (t) => {
  const told = (...payloads: { type: string }[]): Step[] => [
    sse,
    chunk(payloads.map((payload) => line(JSON.stringify(payload), payload.type)).join('')),
    endOfBody()
  ]
  const upstream = await Upstream.start(t)
  const local = await gateway(t, { channels: { first: { protocol: 'anthropic' } } }, { upstreams: { first: upstream } })
  const block = { index: 0, content_block: { type: 'tool_use', id: 'a', name: 'f', input: {} } }
  upstream.script(
    ...told(
      {
        type: 'message_start',
        message: {
          id: 'm',
          type: 'message',
          role: 'assistant',
          content: [],
          usage: { input_tokens: 1, output_tokens: 1 }
        }
      } as never,
      { type: 'content_block_start', ...block } as never,
      { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"x":' } } as never,
      { type: 'content_block_stop', index: 0 } as never,
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 5 } } as never,
      { type: 'message_stop' }
    )
  )
  const messages = [{ role: 'user', content: 'Hi' }]
  const reply = await local.ask({ path: '/v1/messages', body: { model: testModel, max_tokens: 9, messages } })
  t.match([reply.status, reply.json()], [502, { type: 'error', error: { message: /makes no answer/ } }])

  const other = await Upstream.start(t)
  const responses = await gateway(
    t,
    { channels: { first: { endpoints: ['responses'] } } },
    { upstreams: { first: other } }
  )
  const begun = { id: 'resp_1', object: 'response', status: 'in_progress', output: [] }
  for (const last of [
    { type: 'response.completed' },
    { type: 'response.completed', response: null },
    { type: 'response.completed', response: { id: 'resp_1' } }
  ]) {
    other.script(...told({ type: 'response.created', response: begun } as never, last))
    const answer = await responses.ask({ path: '/v1/responses', body: { model: testModel, input: 'Hi' } })
    t.match([answer.status, answer.json()], [502, { error: { code: 'upstream_bad_response' } }], JSON.stringify(last))
  }
})

const clients: Readonly<Record<string, { path: string; body: object; said(payload: any): string | undefined }>> = {
  'openai-chat': {
    path: '/v1/chat/completions',
    body: { model: testModel, stream: true, messages: [{ role: 'user', content: 'Hi' }] },
    said: ({ choices }) => choices?.[0]?.delta.content
  },
  'openai-responses': {
    path: '/v1/responses',
    body: { model: testModel, stream: true, input: 'Hi' },
    said: ({ type, delta: text }) => (type === 'response.output_text.delta' ? text : undefined)
  },
  anthropic: {
    path: '/v1/messages',
    body: { model: testModel, stream: true, max_tokens: 99, messages: [{ role: 'user', content: 'Hi' }] },
    said: ({ delta: more }) => more?.text
  },
  gemini: {
    path: `/v1beta/models/${testModel}:streamGenerateContent?alt=sse`,
    body: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
    said: ({ candidates }) => candidates?.[0]?.content.parts[0].text
  }
}

t.test(
  'what came before an error in the same read is delivered first, and who needs it sees the stream break',
  async (t) => {
    const { local, vendor } = await before(t, one, patient)
    const failure = line(JSON.stringify({ error: { message: words } }))
    const ends = { told: failure, invalid: line('{"choices":'), 'not told': '' }
    for (const [name, { path, body, said }] of Object.entries(clients)) {
      for (const [how, end] of Object.entries(ends)) {
        let go!: () => void
        const seen = new Promise<void>((resolve) => (go = resolve))
        const rest = [delta(' and'), delta(' more')].map((event) => line(JSON.stringify(event))).join('') + end
        vendor.script(sse, events([opening, delta('So'), delta(' far')]), until(seen), chunk(rest), reset())
        const client = (await connect(t, local.url)).send({
          method: 'POST',
          path,
          headers: { authorization: `Bearer ${testKey}` },
          body
        })
        await client.body(' far')
        go()
        const reply = await client.reply()
        const told = readEvents(reply.body).filter(({ data }) => data !== '[DONE]')
        const payloads = told.map(({ data }) => JSON.parse(data))
        t.equal(payloads.map((payload) => said(payload) ?? '').join(''), 'So far and more', `${name}, ${how}`)
        t.match(told.at(-1)!.data, /error/, `${name}, ${how}`)
        t.notMatch(reply.text, leaked)
        // A clean end looks like a whole answer to clients that know no error in a stream.
        t.equal(reply.complete, name !== 'gemini', `${name}, ${how}`)
      }
    }
    let go!: () => void
    const seen = new Promise<void>((resolve) => (go = resolve))
    vendor.script(
      sse,
      events([opening, delta('So')]),
      until(seen),
      chunk(line(JSON.stringify(delta(' far'))) + failure)
    )
    const { path, body } = clients['gemini']!
    const stream = openSession(t, local.url).request({ ':method': 'POST', ':path': path, 'x-goog-api-key': testKey })
    stream.end(JSON.stringify(body))
    let heard = ''
    stream.setEncoding('utf8').on('data', (text: string) => {
      heard += text
      go()
    })
    await t.rejects(finished(stream), 'over HTTP/2, too')
    t.match(heard, /So.* far.*"error"/s)
    t.equal(stream.rstCode, constants.NGHTTP2_INTERNAL_ERROR)
  }
)
