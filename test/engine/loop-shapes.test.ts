// No shape of request, answer or event holds the event loop for long: large parts of every protocol, passed on and
// translated, in CPU time, so that a busy machine does not count.
import t from 'tap'
import type { Test } from 'tap'
import { connect } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { testKey } from '../kit/gateway.ts'
import { watchedGateway } from '../kit/loop.ts'
import type { WatchedGateway } from '../kit/loop.ts'
import { Upstream } from '../kit/upstream.ts'

// Of all tests together.
t.setTimeout(600_000)

const MiB = 1024 * 1024
/** Milliseconds of CPU time that the loop may be held. */
const most = 50

const protocols = ['openai', 'anthropic', 'gemini', 'responses'] as const
type Protocol = (typeof protocols)[number]

/** What an upstream of a protocol answers, whole and streamed, and what clients of it ask. */
interface Speech {
  path(model: string, streamed: boolean): string
  ask(model: string, streamed: boolean, text: string): string
  /** With so many tools. */
  tools(count: number): string
  /** With an answer of this text, or arguments of a call. */
  whole(text: string, args: string): string
  events(text: string, args: string): readonly (readonly [event: string, data: string])[]
}

const json = JSON.stringify
const times = (count: number, make: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => make(at)).join(',')
const schema = (at: number): string => `{"type":"object","properties":{"p${at}":{"type":"string"}}}`

const speeches: Record<Protocol, Speech> = {
  openai: {
    path: () => '/v1/chat/completions',
    ask: (model, stream, text) =>
      `{"model":"${model}","stream":${stream},"messages":[{"role":"user","content":"${text}"}]}`,
    tools: (count) =>
      `"tools":[${times(count, (at) => `{"type":"function","function":{"name":"f${at}","parameters":${schema(at)}}}`)}]`,
    whole: (text, args) =>
      `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"${args ? 'tool_calls' : 'stop'}","message":{"role":"assistant","content":"${text}"${args && `,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":${json(args)}}}]`}}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
    events: (text, args) => {
      const chunk = (delta: string, finish = 'null'): readonly [string, string] => [
        '',
        `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":${delta},"finish_reason":${finish}}]}`
      ]
      return [
        chunk('{"role":"assistant","content":""}'),
        ...(text ? [chunk(`{"content":"${text}"}`)] : []),
        ...(args
          ? [
              chunk(
                `{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":${json(args)}}}]}`
              )
            ]
          : []),
        chunk('{}', args ? '"tool_calls"' : '"stop"'),
        ['', '[DONE]']
      ]
    }
  },
  anthropic: {
    path: () => '/v1/messages',
    ask: (model, stream, text) =>
      `{"model":"${model}","stream":${stream},"max_tokens":99,"messages":[{"role":"user","content":"${text}"}]}`,
    tools: (count) => `"tools":[${times(count, (at) => `{"name":"f${at}","input_schema":${schema(at)}}`)}]`,
    whole: (text, args) =>
      `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"${text || 'a'}"}${args && `,{"type":"tool_use","id":"toolu_1","name":"f","input":${args}}`}],"stop_reason":"${args ? 'tool_use' : 'end_turn'}","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`,
    events: (text, args) => {
      const event = (type: string, more: string): readonly [string, string] => [type, `{"type":"${type}"${more}}`]
      const block = args ? '{"type":"tool_use","id":"toolu_1","name":"f","input":{}}' : '{"type":"text","text":""}'
      const delta = args
        ? `{"type":"input_json_delta","partial_json":${json(args)}}`
        : `{"type":"text_delta","text":"${text}"}`
      return [
        event(
          'message_start',
          ',"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}'
        ),
        event('content_block_start', `,"index":0,"content_block":${block}`),
        event('content_block_delta', `,"index":0,"delta":${delta}`),
        event('content_block_stop', ',"index":0'),
        event(
          'message_delta',
          `,"delta":{"stop_reason":"${args ? 'tool_use' : 'end_turn'}","stop_sequence":null},"usage":{"output_tokens":1}`
        ),
        event('message_stop', '')
      ]
    }
  },
  gemini: {
    path: (model, stream) => `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    ask: (_model, _stream, text) => `{"contents":[{"role":"user","parts":[{"text":"${text}"}]}]}`,
    tools: (count) =>
      `"tools":[{"functionDeclarations":[${times(count, (at) => `{"name":"f${at}","parameters":${schema(at)}}`)}]}]`,
    whole: (text, args) =>
      `{"candidates":[{"index":0,"content":{"role":"model","parts":[${args ? `{"functionCall":{"name":"f","args":${args}}}` : `{"text":"${text}"}`}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`,
    events: (text, args) => [['', speeches.gemini.whole(text, args)]]
  },
  responses: {
    path: () => '/v1/responses',
    ask: (model, stream, text) =>
      `{"model":"${model}","stream":${stream},"store":false,"input":[{"role":"user","content":"${text}"}]}`,
    tools: (count) =>
      `"tools":[${times(count, (at) => `{"type":"function","name":"f${at}","parameters":${schema(at)}}`)}]`,
    whole: (text, args) =>
      `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[${args ? call(args, 'completed') : message(text, 'completed')}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`,
    events: (text, args) => {
      let number = 0
      const event = (type: string, more: string): readonly [string, string] => [
        type,
        `{"type":"${type}","sequence_number":${number++},${more}}`
      ]
      const at = '"output_index":0,"item_id":"it_1"'
      const started =
        '"response":{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","model":"m","output":[]}'
      return [
        event('response.created', started),
        event(
          'response.output_item.added',
          `"output_index":0,"item":${args ? call('', 'in_progress') : '{"id":"it_1","type":"message","role":"assistant","status":"in_progress","content":[]}'}`
        ),
        ...(args
          ? [
              event('response.function_call_arguments.delta', `${at},"delta":${json(args)}`),
              event('response.function_call_arguments.done', `${at},"arguments":${json(args)}`)
            ]
          : [
              event(
                'response.content_part.added',
                `${at},"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`
              ),
              event('response.output_text.delta', `${at},"content_index":0,"delta":"${text}"`),
              event('response.output_text.done', `${at},"content_index":0,"text":"${text}"`),
              event(
                'response.content_part.done',
                `${at},"content_index":0,"part":{"type":"output_text","text":"${text}","annotations":[]}`
              )
            ]),
        event(
          'response.output_item.done',
          `"output_index":0,"item":${args ? call(args, 'completed') : message(text, 'completed')}`
        ),
        event('response.completed', `"response":${speeches.responses.whole(text, args)}`)
      ]
    }
  }
}

function call(args: string, status: string): string {
  return `{"id":"it_1","type":"function_call","call_id":"call_1","name":"f","arguments":${json(args)},"status":"${status}"}`
}

function message(text: string, status: string): string {
  return `{"id":"it_1","type":"message","role":"assistant","status":"${status}","content":[{"type":"output_text","text":"${text}","annotations":[]}]}`
}

interface Rig extends WatchedGateway {
  upstream: Upstream
  /** What the upstream answers from now on. */
  answers(type: string, ...pieces: readonly (Buffer | string)[]): void
  /** Sends something, and says what came of it when the loop was not held for long. */
  see(name: string, target: string, body: Buffer, type?: string): Promise<{ status: number; text: string; end: string }>
}

async function open(t: Test): Promise<Rig> {
  const upstream = await Upstream.start(t)
  let answer: Buffer[] = []
  upstream.always(({ socket }) => {
    upstream.requests.length = 0
    for (const piece of answer) socket.write(piece)
  })
  const to = (protocol: Protocol): object => ({
    protocol: protocol === 'responses' ? 'openai' : protocol,
    endpoints:
      protocol === 'responses' ? ['responses'] : protocol === 'openai' ? ['chat', 'audio', 'embeddings'] : undefined,
    base_url: upstream.url.href,
    private: true,
    timeouts: { total: '200s', first_byte: '100s', idle: '100s' },
    models: { [`at-${protocol}`]: 'm', ...(protocol === 'openai' && { speech: 'm' }) }
  })
  const running = await watchedGateway(t, {
    limits: { body_memory: '1GiB' },
    channels: Object.fromEntries(protocols.map((protocol) => [protocol, to(protocol)])),
    models: {
      speech: { price: 'free' },
      ...Object.fromEntries(protocols.map((protocol) => [`at-${protocol}`, { price: { input: 1, output: 1 } }]))
    }
  })
  return {
    ...running,
    upstream,
    answers(type, ...pieces) {
      const bytes = pieces.map((piece) => Buffer.from(piece))
      const length = bytes.reduce((sum, one) => sum + one.length, 0)
      answer = [Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\n\r\n`), ...bytes]
    },
    async see(name, target, body, type = 'application/json') {
      let reply: ReceivedReply | undefined
      const { cpu, longest } = await running.held(async () => {
        const client = await connect(t, running.url)
        client.write(
          `POST ${target} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${testKey}\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n`
        )
        client.write(body)
        reply = await client.reply()
        client.close()
      }, most)
      t.ok(cpu < most, `${name}: at most ${cpu.toFixed(1)} ms of CPU in a turn (${longest.toFixed(1)} ms in real time)`)
      const { status, body: told } = reply!
      return { status, text: told.toString('utf8', 0, 400), end: told.toString('utf8', told.length - 400) }
    }
  }
}

const eventsOf = (events: Speech['events'] extends (...args: never[]) => infer R ? R : never): string =>
  events.map(([event, data]) => `${event && `event: ${event}\n`}data: ${data}\n\n`).join('')

const letters = (bytes: number): string => 'abcdefg '.repeat(bytes / 8)
/** Arguments of so many bytes: a text in them, or lists. */
const argumentsOf = (bytes: number, unit: string): string => `{"a":[${unit.repeat(bytes / unit.length)}0]}`

/** Who asks whom: each in its own protocol, and in another. */
const pairs: readonly (readonly [client: Protocol, upstream: Protocol])[] =
  process.env['SLUICE_LONG'] === undefined
    ? [
        ...protocols.map((protocol) => [protocol, protocol] as const),
        ['openai', 'anthropic'],
        ['anthropic', 'openai'],
        ['gemini', 'openai'],
        ['responses', 'gemini']
      ]
    : protocols.flatMap((client) =>
        protocols
          .filter((upstream) => upstream !== 'responses' || client === 'responses')
          .map((upstream) => [client, upstream] as const)
      )

t.test('requests with many tools, and many turns', async (t) => {
  const { see, answers } = await open(t)
  for (const [client, upstream] of pairs) {
    const own = speeches[client]
    answers('application/json', speeches[upstream].whole('Hello', ''))
    const short = own.ask(`at-${upstream}`, false, 'Hi')
    const withTools = Buffer.from(`${short.slice(0, -1)},${own.tools(100_000)}}`)
    const seen = await see(`${client} to ${upstream}: 100,000 tools`, own.path(`at-${upstream}`, false), withTools)
    t.match(seen.status, /200|400/, `${seen.status} ${seen.text.slice(0, 200)}`)
    const [before, after] = short
      .split(/(?<=\[)(?=\{)(.*)(?<=\})(?=\])/)
      .filter((part) => !part.startsWith('{"role"') || part === '') as [string, string]
    const turn = /(?<=\[)\{.*\}(?=\])/.exec(short)![0]
    const many = Buffer.from(
      `${before}${times(Math.floor((15 * MiB) / (turn.length + 101)), () => turn.replace('Hi', 'a'.repeat(100)))}${after}`
    )
    const turns = await see(`${client} to ${upstream}: many turns`, own.path(`at-${upstream}`, false), many)
    t.match(turns.status, /200|400/, `${turns.status} ${turns.text.slice(0, 200)}`)
  }
})

/** Of answers, as they are whole, and in one event that is passed on, translated, and too much to be translated. */
const amounts = { whole: 6 * MiB, passed: 4 * MiB, translated: 0.75 * MiB, refused: 6 * MiB }
const shapes: Record<string, (bytes: number) => [text: string, args: string]> = {
  'a long text': (bytes) => [letters(bytes), ''],
  'arguments with a text': (bytes) => ['', `{"a":"${letters(bytes)}"}`],
  'arguments of lists': (bytes) => ['', argumentsOf(bytes / (bytes > MiB ? 2 : 16), '[],')]
}

t.test('answers with long texts and large arguments, whole and in one event', async (t) => {
  const { see, answers } = await open(t)
  for (const [client, upstream] of pairs) {
    const own = speeches[client]
    const ask = (stream: boolean): [string, Buffer] => [
      own.path(`at-${upstream}`, stream),
      Buffer.from(own.ask(`at-${upstream}`, stream, 'Hi'))
    ]
    for (const [name, make] of Object.entries(shapes)) {
      answers('application/json', speeches[upstream].whole(...make(amounts.whole)))
      const whole = await see(`${client} from ${upstream}: ${name}`, ...ask(false))
      t.equal(whole.status, 200, whole.text)
      const native = client === upstream
      for (const amount of native ? (['passed'] as const) : (['translated', 'refused'] as const)) {
        answers('text/event-stream', eventsOf(speeches[upstream].events(...make(amounts[amount]))))
        const streamed = await see(`${client} from ${upstream}: ${name} in an event, ${amount}`, ...ask(true))
        const isError = /upstream_bad_response|too (?:involved|long)|at once/.test(streamed.end + streamed.text)
        t.equal(isError, amount === 'refused', `${client} from ${upstream}, ${name}, ${amount}: ${streamed.end}`)
      }
    }
  }
})

t.test('speech of many MiB, asked for and spoken', async (t) => {
  const { see, answers } = await open(t)
  answers('audio/mpeg', Buffer.alloc(15 * MiB, 0xff))
  const body = `{"model":"speech","voice":"alloy","input":"${letters(15 * MiB)}"}`
  const spoken = await see('speech', '/v1/audio/speech', Buffer.from(body))
  t.equal(spoken.status, 200, spoken.text)
  answers('application/json', `{"text":"${letters(6 * MiB)}"}`)
  const form = [
    '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nspeech\r\n',
    '--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n',
    Buffer.alloc(15 * MiB, 0xff),
    '\r\n--b--\r\n'
  ]
  const bytes = Buffer.concat(form.map((part) => Buffer.from(part)))
  const written = await see('a transcript', '/v1/audio/transcriptions', bytes, 'multipart/form-data; boundary=b')
  t.equal(written.status, 200, written.text)
})
