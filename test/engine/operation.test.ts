// An operation that only this test knows: what an endpoint is stands in its row, and nowhere in the engine.
import { createHash, randomBytes } from 'node:crypto'
import t from 'tap'
import type { Operation } from '../../core/contract/operation.ts'
import { operations } from '../../core/operations/index.ts'
import { formOf } from '../kit/form.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { bytes, chunk, endOfBody, head, reset, Upstream } from '../kit/upstream.ts'

/** A path parameter, a form in, sound out. */
const dub: Operation = {
  name: 'audio.dub',
  endpoint: 'audio',
  summary: 'Speaks a film in another language.',
  method: 'POST',
  paths: ['/v1/films/{film}/dub'],
  protocol: 'openai-chat',
  body: 'form',
  model: { in: 'body', name: 'model' },
  answers: ['bytes'],
  upstream: {
    openai: {
      protocol: 'openai-chat',
      method: 'POST',
      target: ({ parameters, model }) => `/dub/${encodeURIComponent(parameters['film']!)}?voice=${model}`
    }
  },
  metering: { outputLimits: [] }
}

const headers = { authorization: `Bearer ${testKey}` }
const sha256 = (data: Buffer): string => createHash('sha256').update(data).digest('hex')

async function open(
  t: Test,
  names: readonly string[]
): Promise<Awaited<ReturnType<typeof gateway>> & { upstreams: Upstream[] }> {
  const upstreams = await Promise.all(names.map(() => Upstream.start(t)))
  const channels = Object.fromEntries(
    names.map((name) => [name, { endpoints: ['audio'], models: { [testModel]: `voice-${name}` } }])
  )
  const setup = {
    upstreams: Object.fromEntries(names.map((name, index) => [name, upstreams[index]!])),
    operations: [...operations, dub]
  }
  return { ...(await gateway(t, { channels }, setup)), upstreams }
}
type Test = Parameters<typeof gateway>[0]

t.test('a form with a film goes up byte for byte, and the sound comes back as it comes', async (t) => {
  const {
    ask,
    record,
    upstreams: [upstream]
  } = await open(t, ['one'])
  const sound = randomBytes(300_000)
  upstream!.script(
    head(200, { 'content-type': 'audio/mpeg' }),
    chunk(sound.subarray(0, 100_000)),
    chunk(sound.subarray(100_000)),
    endOfBody()
  )
  const film = randomBytes(3_000_000)
  const form = formOf([
    { name: 'file', value: film, filename: 'film.mp4', type: 'video/mp4' },
    { name: 'model', value: testModel }
  ])
  const reply = await ask({
    method: 'POST',
    path: '/v1/films/a%2Fb/dub',
    headers: { ...headers, 'content-type': form.type },
    body: form.body
  })
  t.match(reply, { status: 200, complete: true, headers: { 'content-type': 'audio/mpeg' } })
  t.equal(sha256(reply.body), sha256(sound))
  const [request] = upstream!.requests
  t.equal(request!.target.replace(/^.*\/dub/, '/dub'), '/dub/a%2Fb?voice=voice-one')
  t.equal(request!.headers['content-type'], form.type)
  t.equal(
    sha256(request!.body),
    sha256(Buffer.from(form.body.toString('latin1').replace(testModel, 'voice-one'), 'latin1')),
    'only the model has its other name'
  )
  t.match(await record(reply), { endpoint: 'audio.dub', model: testModel, channel: 'one', outcome: 'completed' })
})

t.test('the same upload goes to a second channel before anything was answered', async (t) => {
  const {
    ask,
    record,
    upstreams: [first, second]
  } = await open(t, ['one', 'two'])
  first!.script(head(500, { 'content-type': 'text/plain' }), chunk('no'), endOfBody())
  second!.script(head(200, { 'content-type': 'audio/mpeg' }), chunk('sound'), endOfBody())
  const form = formOf([
    { name: 'file', value: randomBytes(2_000_000), filename: 'film.mp4' },
    { name: 'model', value: testModel }
  ])
  const reply = await ask({
    method: 'POST',
    path: '/v1/films/x/dub',
    headers: { ...headers, 'content-type': form.type },
    body: form.body
  })
  t.match(reply, { status: 200, text: 'sound' })
  t.equal(
    sha256(Buffer.from(first!.requests[0]!.body.toString('latin1').replace('voice-one', 'voice-two'), 'latin1')),
    sha256(second!.requests[0]!.body)
  )
  t.match(await record(reply), {
    attempts: [
      { channel: 'one', status: 500 },
      { channel: 'two', status: 200 }
    ]
  })
})

t.test('sound that breaks off never looks complete, and an empty one is none', async (t) => {
  const {
    ask,
    record,
    upstreams: [upstream]
  } = await open(t, ['one'])
  const form = formOf([{ name: 'model', value: testModel }])
  const parts = {
    method: 'POST',
    path: '/v1/films/x/dub',
    headers: { ...headers, 'content-type': form.type },
    body: form.body
  }
  upstream!.script(head(200, { 'content-type': 'audio/mpeg' }), chunk('sou'), reset())
  const cut = await ask(parts)
  t.equal(cut.complete, false)
  t.match(await record(cut), { outcome: 'failed', error_code: 'upstream_stream_interrupted' })
  upstream!.script(head(200, { 'content-type': 'audio/mpeg' }), endOfBody())
  t.match((await ask(parts)).json(), { error: { code: 'upstream_bad_response' } })
  upstream!.script(
    head(200, { 'content-type': 'application/json', 'content-length': '26' }),
    bytes('{"error":{"message":"no"}}')
  )
  t.match((await ask(parts)).json(), { error: { message: 'no' } }, 'an error in the place of sound is an error')
})

t.test('what is no form, too large or without a model is refused in words, and nothing is held', async (t) => {
  const {
    ask,
    admin,
    upstreams: [upstream]
  } = await open(t, ['one'])
  const post = (type: string, body: Buffer | string): ReturnType<typeof ask> =>
    ask({ method: 'POST', path: '/v1/films/x/dub', headers: { ...headers, 'content-type': type }, body })
  t.match((await post('application/json', '{}')).json(), {
    error: { code: 'unsupported_media_type', message: /multipart\/form-data/ }
  })
  const nameless = formOf([{ name: 'file', value: 'x', filename: 'f' }])
  t.match((await post(nameless.type, nameless.body)).json(), { error: { code: 'missing_field', param: 'model' } })
  const { body, type } = formOf([{ name: 'model', value: testModel }])
  t.match((await post(type, body.subarray(0, -9))).json(), {
    error: { code: 'invalid_request', message: /ends before its last delimiter/ }
  })
  t.match((await ask({ method: 'GET', path: '/v1/films/x/dub', headers })).json(), {
    error: { code: 'method_not_allowed' }
  })
  t.equal(upstream!.requests.length, 0)
  await eventually(async () => {
    const { data } = (await admin('/admin/v1/balances')) as { data: { pending_nano: string }[] }
    return data.every(({ pending_nano: pending }) => pending === '0')
  })
})
