// What is dear is asked for once: nobody pays for a picture, a video, sound or work in the background that was made
// twice because its first answer got lost.
import t from 'tap'
import type { Test } from 'tap'
import { formOf } from '../kit/form.ts'
import type { FormPart } from '../kit/form.ts'
import { gateway, testModel } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import type { RequestParts, ReceivedReply } from '../kit/client.ts'
import { eventually } from '../kit/probe.ts'
import { bytes, chunk, fin, head, pause, readBody, reset, stall, stopReading, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'

t.setTimeout(600_000)

const json = (status: number, body: unknown): Step[] => {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return [
    head(status, { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }),
    bytes(text)
  ]
}
const model = testModel

const picture = (value: Buffer): FormPart => ({ name: 'image', value, filename: 'boat.png', type: 'image/png' })
const asForm = (path: string, parts: readonly FormPart[]): RequestParts => {
  const { body, type } = formOf([{ name: 'model', value: model }, ...parts])
  return { path, headers: { 'content-type': type }, body }
}
const edit = (value: Buffer): RequestParts =>
  asForm('/v1/images/edits', [{ name: 'prompt', value: 'A boat' }, picture(value)])

const pictures = {
  created: 1,
  data: [{ b64_json: 'AAAA' }],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
}
const video = { id: 'video_1', object: 'video', status: 'queued', model, progress: 0, seconds: '4' }
const response = {
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status: 'queued',
  model,
  output: [],
  background: true
}

/** What is asked, and what an upstream that is well answers. */
const dear: Record<string, { parts: RequestParts; well: Step[] }> = {
  pictures: {
    parts: { path: '/v1/images/generations', body: { model, prompt: 'A boat' } },
    well: json(200, pictures)
  },
  'pictures, streamed': {
    parts: { path: '/v1/images/generations', body: { model, prompt: 'A boat', stream: true } },
    well: json(200, pictures)
  },
  edits: { parts: edit(Buffer.alloc(100, 1)), well: json(200, pictures) },
  variations: {
    parts: asForm('/v1/images/variations', [picture(Buffer.alloc(100, 1))]),
    well: json(200, pictures)
  },
  speech: {
    parts: { path: '/v1/audio/speech', body: { model, input: 'Ahoy', voice: 'alloy' } },
    well: [head(200, { 'content-type': 'audio/mpeg', 'content-length': '4' }), bytes('abcd')]
  },
  videos: { parts: { path: '/v1/videos', body: { model, prompt: 'A boat', seconds: '4' } }, well: json(200, video) },
  'videos as tasks': {
    parts: { path: '/v1/video/generations', body: { model, prompt: 'A boat', seconds: 4 } },
    well: json(200, { ...video, id: 'video_2' })
  },
  'work in the background': {
    parts: { path: '/v1/responses', body: { model, input: 'Think', background: true } },
    well: json(200, response)
  }
}

/** What may have been made all the same when the upstream has the whole request. */
const lost: Record<string, Step[]> = {
  'a reset': [reset()],
  'a lost connection': [fin()],
  'a status of a proxy that waited too long': json(504, { error: { message: 'upstream request timeout' } }),
  'a status of a proxy that lost its upstream': json(502, '<html>502 Bad Gateway</html>'),
  'an answer that is cut': [head(200, { 'content-type': 'application/json' }), chunk('{"id":'), reset()],
  'an answer that is none': json(200, '{}')
}

/** What says that nothing was made. */
const refused: Record<string, Step[]> = {
  'too many requests': json(429, { error: { message: 'slow down' } }),
  'an overload': json(503, { error: { message: 'overloaded' } }),
  'a failure': json(500, { error: { message: 'oops' } }),
  'our key refused': json(401, { error: { message: 'Incorrect API key' } }),
  'a credit that is used up': json(400, { error: { message: 'no', code: 'billing_hard_limit_reached' } })
}

interface Bench {
  local: LocalGateway
  first: Upstream
  second: Upstream
}

const endpoints = ['chat', 'images', 'audio', 'videos', 'responses']

async function open(t: Test, more: Record<string, unknown> = {}): Promise<Bench> {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const channel = { endpoints, ...more }
  const local = await gateway(
    t,
    {
      channels: { first: channel, second: channel },
      models: { [model]: { price: { input: 1, output: 2, image: 0.01, second: 0.1, character: 0.001 } } },
      chain: [
        { auth: {} },
        { quota: {} },
        { ratelimit: {} },
        { route: { repeats: 3, attempts: 10, eject_after: 1000, retry_per_second: 1000 } },
        { 'protocol-translate': {} },
        { 'usage-meter': {} },
        { log: { sink: 'none' } }
      ]
    },
    { upstreams: { first, second } }
  )
  return { local, first, second }
}

/** All requests that upstreams have seen. */
const seen = ({ first, second }: Bench): number => first.requests.length + second.requests.length

for (const [way, more] of Object.entries({ 'our own transport': {}, undici: { transport: 'undici' } })) {
  t.test(`by ${way}, what may have been made is not asked for again`, async (t) => {
    for (const [what, { parts, well }] of Object.entries(dear)) {
      // A gateway each, as it would leave out a channel that fails time and again.
      const bench = await open(t, more)
      const { local, first, second } = bench
      second.always(...well)
      for (const [fault, steps] of Object.entries(lost)) {
        // Bytes that are no JSON are an answer to a request for sound.
        if (what === 'speech' && fault.startsWith('an answer that is')) continue
        first.script(...steps)
        const before = first.requests.length
        const reply = await local.ask(parts)
        const place = `${what}, ${fault}: ${reply.status} ${reply.text.slice(0, 200)}`
        t.equal(first.requests.length, before + 1, place)
        t.equal(second.requests.length, 0, place)
        t.ok(reply.status === 502 || reply.status === 504, place)
        t.equal(reply.headers['x-should-retry'], 'false', `${place}: nor does a library`)
      }
    }
  })

  t.test(`by ${way}, who was silent may have been at work`, async (t) => {
    const { local, first, second } = await open(t, { ...more, timeouts: { first_byte: '500ms', total: '700ms' } })
    first.always(stall())
    await Promise.all(
      Object.entries(dear).map(async ([what, { parts }]) => {
        const reply = await local.ask(parts)
        t.equal(reply.status, 504, `${what}: ${reply.text.slice(0, 200)}`)
        t.equal(reply.headers['x-should-retry'], 'false', what)
      })
    )
    t.equal(first.requests.length, Object.keys(dear).length)
    t.equal(second.requests.length, 0)
  })

  t.test(`by ${way}, it is waited for, as nobody else would be asked`, async (t) => {
    // Long enough for all of them to be sent, as what nobody has had is asked of another channel.
    const timeouts = { first_byte: '2s', first_byte_whole: '2s' }
    const { local, first, second } = await open(t, { ...more, timeouts })
    const wells = Map.groupBy(Object.values(dear), ({ parts }) => parts.path!.replace('video/generations', 'videos'))
    first.always(pause(2500), async (stage) => {
      const { target } = first.requests.find(({ connection }) => connection === stage.connection)!
      for (const step of wells.get(target)!.shift()!.well) await step(stage)
    })
    await Promise.all(
      Object.entries(dear).map(async ([what, { parts }]) => {
        const reply = await local.ask(parts)
        t.ok([200, 202].includes(reply.status), `${what}: ${reply.status} ${reply.text.slice(0, 200)}`)
      })
    )
    t.equal(second.requests.length, 0)
  })

  t.test(`by ${way}, what was refused is asked of another channel`, async (t) => {
    for (const [fault, steps] of Object.entries(refused)) {
      const { local, first, second } = await open(t, more)
      for (const [what, { parts, well }] of Object.entries(dear)) {
        first.always(...steps)
        second.always(...well)
        const before = second.requests.length
        const reply = await local.ask(parts)
        t.ok(
          reply.status === 200 || reply.status === 202,
          `${what}, ${fault}: ${reply.status} ${reply.text.slice(0, 200)}`
        )
        t.equal(second.requests.length, before + 1, `${what}, ${fault}`)
      }
    }
  })

  t.test(`by ${way}, an upstream that nobody could reach was not asked`, async (t) => {
    const bench = await open(t, more)
    await bench.first.close()
    for (const [what, { parts, well }] of Object.entries(dear)) {
      bench.second.always(...well)
      const reply = await bench.local.ask(parts)
      t.ok(reply.status === 200 || reply.status === 202, `${what}: ${reply.status} ${reply.text.slice(0, 200)}`)
    }
  })

  t.test(`by ${way}, it goes over a connection of its own`, async (t) => {
    const bench = await open(t, more)
    const { local, first } = bench
    for (const [what, { parts }] of Object.entries(dear)) {
      first.json({
        id: 'chatcmpl-1',
        object: 'chat.completion',
        created: 1,
        model,
        choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }]
      })
      t.equal((await local.chat()).status, 200)
      const before = seen(bench)
      // As one that was closed for idleness would: nothing of an answer, and at once.
      first.script(fin())
      const reply: ReceivedReply = await local.ask(parts)
      t.equal(reply.status, 502, `${what}: ${reply.text.slice(0, 200)}`)
      t.equal(seen(bench), before + 1, what)
    }
  })
}

t.test('a body that did not all get there made nothing', async (t) => {
  const bench = await open(t)
  const { local, first, second } = bench
  first.scriptFromHead(readBody(100_000), stopReading(), reset())
  second.always(...json(200, pictures))
  const large = Buffer.alloc(14_000_000, 1)
  const reply = await local.ask(edit(large))
  t.equal(reply.status, 200, reply.text.slice(0, 200))
  t.equal(second.requests.length, 1)
  t.ok(second.requests[0]!.body.length > large.length)
})

t.test('pictures that are a task are asked for once, too', async (t) => {
  const { local, first, second } = await open(t)
  first.script(reset())
  const path = '/v1/images/generations/async'
  const { status, json } = await local.ask({ path, body: { model, prompt: 'A boat' } })
  t.equal(status, 202)
  const task = `${path}/${json().id}`
  await eventually(async () => (await local.ask({ method: 'GET', path: task })).json().status === 'failed')
  t.equal(first.requests.length, 1)
  t.equal(second.requests.length, 0)
})

t.test('a conversation is asked for again as ever', async (t) => {
  const { local, first, second } = await open(t)
  first.script(reset())
  second.json({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model,
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }]
  })
  t.equal((await local.chat()).status, 200)
  first.script(...json(504, { error: { message: 'timeout' } }))
  second.json({ id: 'resp_2', object: 'response', created_at: 1, status: 'completed', model, output: [] })
  t.equal((await local.ask({ path: '/v1/responses', body: { model, input: 'Hi' } })).status, 200)
})
