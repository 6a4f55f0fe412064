// No request holds the event loop for long, and no whole answer that is translated, whatever it is made of: everybody
// else's streams go on meanwhile.
import t from 'tap'
import type { Test } from 'tap'
import { connect } from '../kit/client.ts'
import { testKey, testModel } from '../kit/gateway.ts'
import { watchedGateway } from '../kit/loop.ts'
import type { WatchedGateway } from '../kit/loop.ts'
import { Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

// Of all tests together; the bodies alone take half a minute.
t.setTimeout(600_000)

const long = process.env['SLUICE_LONG'] !== undefined
const MiB = 1024 * 1024
/** As large as a body may be, or enough of it to see what all of it would take. */
const size = (long ? 32 : 8) * MiB
/** Milliseconds that the loop may be held. */
const most = 50

const start = `{"model":"${testModel}"`

/** A body of the largest size that is nearly all one text, again and again. */
function filled(unit: string, before: string, after: string): Buffer {
  const width = Buffer.byteLength(unit)
  const count = Math.floor((size - before.length - after.length) / width)
  return Buffer.concat([Buffer.from(before), Buffer.alloc(count * width, unit), Buffer.from(after)])
}

const list = (unit: string): Buffer => filled(unit, `${start},"x":[`, '0]}')
const string = (unit: string): Buffer => filled(unit, `${start},"x":"`, '"}')

function members(before: string, after: string): Buffer {
  const width = 12
  const bytes = Buffer.alloc(Math.floor((size - before.length - after.length) / width) * width)
  for (let at = 0; at < bytes.length; at += width)
    bytes.write(`,"${(at / width).toString(36).padStart(7, '_')}":1`, at, 'latin1')
  return Buffer.concat([Buffer.from(before), bytes, Buffer.from(after)])
}

/** With a byte that is no UTF-8 as the last of the text. */
const endingBadly = (body: Buffer): Buffer => body.fill(0xff, body.length - 3, body.length - 2)

/** By what they are made of, with the status of their answers. */
const shapes: Record<string, [() => Buffer, status: number]> = {
  members: [() => members(start, '}'), 400],
  'members of an option': [() => members(`${start},"stream":true,"stream_options":{"include_usage":true`, '}}'), 400],
  numbers: [() => list('0,'), 200],
  lists: [() => list('[],'), 200],
  'lists in lists': [() => list(`${'['.repeat(500)}${']'.repeat(500)},`), 200],
  'objects with a member': [() => list('{"":0},'), 200],
  strings: [() => list('"",'), 200],
  'escapes between letters': [() => string('a\\ra'), 200],
  'letters beyond ASCII': [() => string('é'), 200],
  'a list that does not end': [() => filled('0,', `${start},"x":[`, '0'), 400],
  'no UTF-8 at its end': [() => endingBadly(filled('é', `${start},"x":"`, 'a"}')), 400],
  'the digits of a limit': [() => filled('1', `${start},"max_tokens":`, '}'), 400],
  'the name of a model': [() => filled('a', '{"model":"', '"}'), 400],
  'a key': [() => filled('a', `${start},"`, '":1}'), 400],
  ...(long && {
    'a key in escapes': [() => filled('\\u0041', `${start},"`, '":1}'), 400],
    'the name of a model in escapes': [() => filled('\\u0041', '{"model":"', '"}'), 400],
    words: [() => list('true,'), 200],
    'numbers in full': [() => list('-1.5e+9,'), 200],
    spaces: [() => filled(' ', `${start},"x":`, '1}'), 200],
    escapes: [() => string('\\/'), 200],
    'escapes of letters': [() => string('\\u0041'), 200],
    'letters of four bytes': [() => string('😀'), 200],
    'short strings': [() => list('"aaaaaaaaaaaaaaaaa",'), 200],
    'nothing but openings': [() => filled('[', `${start},"x":`, ''), 400],
    text: [() => string('a'), 200]
  })
}

/** A gateway with an upstream that answers whatever comes, and forgets it. */
async function watched(t: Test): Promise<WatchedGateway> {
  const upstream = await Upstream.start(t)
  const answer = JSON.stringify(chatAnswer())
  upstream.always(({ socket }) => {
    upstream.requests.length = 0
    socket.write(
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${answer.length}\r\n\r\n${answer}`
    )
  })
  return watchedGateway(t, { limits: { body_memory: '1GiB' } }, { upstreams: { upstream } })
}

/** Sends a body, in one piece or in chunks as they come in practice; the status of the answer. */
async function send(
  t: Test,
  url: string,
  body: Buffer,
  chunked: boolean,
  target = '/v1/chat/completions'
): Promise<number> {
  const client = await connect(t, url)
  const framing = chunked ? 'transfer-encoding: chunked' : `content-length: ${body.length}`
  client.write(
    `POST ${target} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${testKey}\r\ncontent-type: application/json\r\n${framing}\r\n\r\n`
  )
  if (!chunked) client.write(body)
  else {
    const width = 64 * 1024
    for (let at = 0; at < body.length; at += width) {
      const piece = body.subarray(at, at + width)
      client
        .write(`${piece.length.toString(16)}\r\n`)
        .write(piece)
        .write('\r\n')
    }
    client.write('0\r\n\r\n')
  }
  const { status } = await client.reply()
  client.close()
  return status
}

t.test('no body holds the loop, whatever fills it', async (t) => {
  const running = await watched(t)
  for (const [name, [make, expected]] of Object.entries(shapes)) {
    const body = make()
    for (const chunked of [false, true]) {
      if (chunked && !long && name !== 'numbers') continue
      const { cpu, longest } = await running.held(async () => {
        t.equal(await send(t, running.url, body, chunked), expected, name)
      }, most)
      t.ok(
        cpu < most,
        `${name}${chunked ? ' in chunks' : ''}: at most ${cpu.toFixed(1)} ms of CPU in a turn (${longest.toFixed(1)} ms in real time)`
      )
    }
  }
})

/** Bodies that are brought into another protocol, or of which something is parsed, with the path they are sent to. */
const involved: Record<string, [target: string, make: () => Buffer, status: number]> = {
  'a long text': [
    '/v1/chat/completions',
    () => filled('é', `${start},"messages":[{"role":"user","content":"`, '"}]}'),
    200
  ],
  'many messages': [
    '/v1/chat/completions',
    () =>
      filled(
        `{"role":"user","content":"${'a'.repeat(170)}"},`,
        `${start},"messages":[`,
        '{"role":"user","content":"a"}]}'
      ),
    200
  ],
  'more messages than anybody has said': [
    '/v1/chat/completions',
    () => filled('{"role":"user","content":"a"},', `${start},"messages":[`, '{"role":"user","content":"a"}]}'),
    400
  ],
  'a schema of lists': [
    '/v1/chat/completions',
    () =>
      filled(
        '[],',
        `${start},"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","enum":[`,
        '0]}}}]}'
      ),
    long ? 400 : 200
  ],
  'signatures of ours': [
    '/v1/messages',
    () =>
      filled(
        '[],',
        `${start},"max_tokens":5,"messages":[{"role":"user","content":"a"}],"metadata":{"user_id":"sluice1."},"x":[`,
        '0]}'
      ),
    long ? 400 : 200
  ],
  'settings of an answer': [
    `/v1beta/models/${testModel}:generateContent`,
    () => filled('[],', '{"contents":[{"parts":[{"text":"a"}]}],"generationConfig":{"x":[', '0]}}'),
    400
  ],
  'items of an input': ['/v1/responses', () => filled('{},', `${start},"input":[`, '{}]}'), 400],
  'seconds of a video': ['/v1/videos', () => filled('[],', `${start},"prompt":"a","seconds":[`, '0]}'), 400],
  'the duration of a video': [
    '/v1/video/generations',
    () => filled('[],', `${start},"prompt":"a","duration":[`, '0]}'),
    400
  ],
  'a batch that is none': [
    '/v1beta/models/vectors:embedContent',
    () => filled('[],', '{"content":{"parts":[{"text":"a"}]},"requests":[', '0]}'),
    400
  ],
  'many prompts': ['/v1/completions', () => filled('"",', `${start},"prompt":[`, '""]}'), 400]
}

t.test('nor does one that is translated, or of which something is parsed', async (t) => {
  const upstream = await Upstream.start(t)
  const answer = JSON.stringify({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'demo',
    content: [{ type: 'text', text: 'Hello' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 1, output_tokens: 1 }
  })
  upstream.always(({ socket }) => {
    upstream.requests.length = 0
    socket.write(
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${answer.length}\r\n\r\n${answer}`
    )
  })
  const channel = {
    protocol: 'anthropic',
    base_url: upstream.url.href,
    private: true,
    models: { [testModel]: testModel }
  }
  const renaming = { protocol: 'gemini', base_url: upstream.url.href, private: true, models: { vectors: 'other' } }
  const price = { input: 1, output: 1, second: 1 }
  const running = await watchedGateway(t, {
    limits: { body_memory: '1GiB' },
    channels: { first: channel, second: renaming },
    models: { [testModel]: { price }, vectors: { price } }
  })
  for (const [name, [target, make, expected]] of Object.entries(involved)) {
    const body = make()
    const { cpu, longest } = await running.held(async () => {
      t.equal(await send(t, running.url, body, false, target), expected, name)
    }, most)
    t.ok(cpu < most, `${name}: at most ${cpu.toFixed(1)} ms of CPU in a turn (${longest.toFixed(1)} ms in real time)`)
  }
})

/** An answer of a message's protocol of about 7 MiB, most of it in one place. */
const answered = (unit: string, before: string, after: string): Buffer => {
  const count = Math.floor((7 * MiB) / unit.length)
  return Buffer.concat([
    Buffer.from(`{"id":"msg_1","type":"message","role":"assistant","model":"demo",${before}`),
    Buffer.alloc(count * unit.length, unit),
    Buffer.from(after)
  ])
}
const ending = '"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}'
const hello = '"content":[{"type":"text","text":"Hello"}]'

/** Whole answers that are brought into another protocol. */
const large: Record<string, () => Buffer> = {
  lists: () => answered('[],', `${hello},${ending.slice(0, -1)},"x":[`, '0]}'),
  texts: () =>
    answered(`{"type":"text","text":"${'a'.repeat(70)}"},`, '"content":[', `{"type":"text","text":"a"}],${ending}`),
  'arguments of a tool': () =>
    answered('[],', '"content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":[', `0]}}],${ending}`),
  'a long text': () => answered('a', '"content":[{"type":"text","text":"', `"}],${ending}`)
}

t.test('nor does a whole answer that is translated', async (t) => {
  const upstream = await Upstream.start(t)
  let answer: Buffer = Buffer.alloc(0)
  upstream.always(({ socket }) => {
    upstream.requests.length = 0
    socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${answer.length}\r\n\r\n`)
    socket.write(answer)
  })
  const channel = {
    protocol: 'anthropic',
    base_url: upstream.url.href,
    private: true,
    models: { [testModel]: testModel }
  }
  const running = await watchedGateway(t, {
    channels: { first: channel },
    models: { [testModel]: { price: { input: 1, output: 1 } } }
  })
  const body = Buffer.from(`${start},"messages":[{"role":"user","content":"a"}]}`)
  for (const [name, make] of Object.entries(large)) {
    answer = make()
    const { cpu, longest } = await running.held(async () => {
      t.equal(await send(t, running.url, body, false), 200, name)
    }, most)
    t.ok(cpu < most, `${name}: at most ${cpu.toFixed(1)} ms of CPU in a turn (${longest.toFixed(1)} ms in real time)`)
  }
})

t.test('twenty clients that send the worst there is do not hold it either', async (t) => {
  const running = await watched(t)
  const worst = [
    'members',
    'members of an option',
    'numbers',
    'lists',
    'strings',
    'a list that does not end',
    'objects with a member'
  ].map((name) => {
    const [make, expected] = shapes[name]!
    return { body: make(), expected }
  })
  let sent = 0
  let until = 0
  const client = async (number: number): Promise<void> => {
    for (let turn = number; performance.now() < until; turn++) {
      const { body, expected } = worst[turn % worst.length]!
      if ((await send(t, running.url, body, turn % 3 === 0)) !== expected) t.fail(`a wrong answer to request ${sent}`)
      sent++
    }
  }
  const { cpu, p999, longest } = await running.held(async () => {
    until = performance.now() + (long ? 60_000 : 1500)
    await Promise.all(Array.from({ length: 20 }, (_, number) => client(number)))
  }, most)
  t.ok(cpu < most, `${sent} requests: at most ${cpu.toFixed(1)} ms of CPU in a turn`)
  t.comment(`in real time one turn in a thousand took ${p999.toFixed(1)} ms, and the longest ${longest.toFixed(1)} ms`)
  if (long) t.ok(p999 < most, `one turn in a thousand took ${p999.toFixed(1)} ms in real time`)
})
