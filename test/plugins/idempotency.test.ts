// A request that is sent again with its Idempotency-Key: run once, charged once, answered byte for byte.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { OwnAllowance } from '../../core/allowance.ts'
import idempotency from '../../plugins/idempotency/index.ts'
import { GatewayError, Message } from '../../core/contract/contract.ts'
import type { Observer } from '../../core/contract/contract.ts'
import { caller } from '../../core/contract/slots.ts'
import type { Answers, KeptAnswer } from '../../core/store/answers.ts'
import { MemoryClaims } from '../../core/store/memory/claims.ts'
import { AnswerRecording, RecordingRoom } from '../../plugins/idempotency/recording.ts'
import { ask, connect } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { pluginContract } from '../kit/contract.ts'
import { formOf } from '../kit/form.ts'
import { gateway, spawnGateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway, Overrides, TestGateway } from '../kit/gateway.ts'
import { bytes, events, head, reset, Upstream, until } from '../kit/upstream.ts'
import { eventually } from '../kit/probe.ts'
import { chatAnswer, chatEvents } from '../kit/workbench.ts'

pluginContract(t, idempotency, { accepts: [{}, { largest: '2MiB' }], refuses: [[{ largest: '1GiB' }, /8MiB|8388608/]] })

const chain = [
  { auth: {} },
  { idempotency: { largest: '64KiB' } },
  { quota: {} },
  { ratelimit: {} },
  { route: { repeats: 0 } },
  { 'protocol-translate': {} },
  { 'usage-meter': {} },
  { log: { sink: 'none' } }
]
const tenants = { acme: {}, other: {} }
const keys = [
  { name: 'test', key: testKey, tenant: 'acme' },
  { name: 'second', key: 'sk-second', tenant: 'acme' },
  { name: 'foreign', key: 'sk-foreign', tenant: 'other' }
]

async function open(t: Test, overrides: Overrides = {}): Promise<{ local: LocalGateway; upstream: Upstream }> {
  const upstream = await Upstream.start(t)
  return { upstream, local: await gateway(t, { chain, tenants, keys, ...overrides }, { upstreams: { a: upstream } }) }
}

const plain = { model: testModel, messages: [{ role: 'user', content: 'Hi' }] }

function send(
  to: TestGateway,
  name: string | undefined,
  body: object = plain,
  headers: Record<string, string> = {}
): Promise<ReceivedReply> {
  return to.ask({
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { ...(name !== undefined && { 'idempotency-key': name }), ...headers },
    body
  })
}

const text = JSON.stringify(chatAnswer())
const whole = [head(200, { 'content-type': 'application/json', 'content-length': String(text.length) }), bytes(text)]
const spent = async (local: TestGateway): Promise<string> =>
  (await local.admin('/admin/v1/balances?scope=tenant:acme')).data.find((one: any) => one.window === 'total')
    .posted_nano
const code = (reply: ReceivedReply): unknown => [reply.status, reply.json().error.code]

t.test('a repetition has the same answer and costs nothing', async (t) => {
  const { local, upstream } = await open(t)
  upstream.json(chatAnswer())
  const first = await send(local, 'a')
  t.equal(first.headers['idempotency-replayed'], undefined)
  const cost = await spent(local)
  t.not(cost, '0')
  const again = await send(local, 'a')
  t.match(
    [again.status, again.headers['idempotency-replayed'], again.headers['content-type']],
    [200, 'true', first.headers['content-type']]
  )
  t.equal(again.text, first.text)
  t.not(again.headers['x-request-id'], first.headers['x-request-id'])
  t.match(await local.record(again), { status: 200, outcome: 'completed', cost_nano: '0', attempts: [] })
  t.equal(await spent(local), cost)
  t.equal(upstream.requests.length, 1)
  t.equal(upstream.requests[0]!.headers['idempotency-key'], undefined, 'the name is between the client and us')
})

t.test('a stream is given again byte for byte, with what the gateway has added to it', async (t) => {
  const { local, upstream } = await open(t)
  upstream.sse(chatEvents(40), { done: false })
  const body = { ...plain, stream: true }
  const first = await send(local, 'stream', body)
  t.match(first.text, /\[DONE\]\n\n$/)
  const again = await send(local, 'stream', body)
  t.ok(again.body.equals(first.body))
  t.equal(again.headers['content-type'], first.headers['content-type'])
  t.equal(upstream.requests.length, 1)
})

t.test('sound, and clients of another protocol', async (t) => {
  const { local, upstream } = await open(t, { channels: { a: { endpoints: ['chat', 'audio'] } } })
  const sound = randomBytes(20_000)
  upstream.script(head(200, { 'content-type': 'audio/mpeg', 'content-length': '20000' }), bytes(sound))
  const speak = (): Promise<ReceivedReply> =>
    local.ask({
      method: 'POST',
      path: '/v1/audio/speech',
      headers: { 'idempotency-key': 'sound' },
      body: { model: testModel, voice: 'alloy', input: 'Hi' }
    })
  for (const reply of [await speak(), await speak()])
    t.ok(reply.body.equals(sound) && reply.headers['content-type'] === 'audio/mpeg')
  upstream.sse(chatEvents())
  const message = (): Promise<ReceivedReply> =>
    local.ask({
      method: 'POST',
      path: '/v1/messages',
      headers: { 'idempotency-key': 'message' },
      body: { ...plain, max_tokens: 10, stream: true }
    })
  const first = await message()
  t.match(first.text, /^event: message_start[\s\S]*event: message_stop\n.*\n\n$/)
  t.ok((await message()).body.equals(first.body))
  t.equal(upstream.requests.length, 2)
})

t.test('sound that comes in pieces is one answer: refused while it comes, and given again as a whole', async (t) => {
  const { local, upstream } = await open(t, { channels: { a: { endpoints: ['chat', 'audio'] } } })
  const sound = randomBytes(20_000)
  let go: () => void = () => {}
  upstream.script(
    head(200, { 'content-type': 'audio/mpeg', 'content-length': '20000' }),
    bytes(sound.subarray(0, 9_000)),
    until(new Promise<void>((resolve) => (go = resolve))),
    bytes(sound.subarray(9_000))
  )
  const parts = {
    method: 'POST',
    path: '/v1/audio/speech',
    headers: { authorization: `Bearer ${testKey}`, 'idempotency-key': 'pieces' },
    body: { model: testModel, voice: 'alloy', input: 'Hi' }
  }
  const client = await connect(t, local.url)
  client.send(parts)
  await client.head()
  t.same(code(await local.ask(parts)), [409, 'idempotency_in_progress'])
  go()
  t.ok((await client.reply()).body.equals(sound))
  const again = await local.ask(parts)
  t.match([again.status, again.headers['idempotency-replayed']], [200, 'true'])
  t.ok(again.body.equals(sound))
  t.equal(upstream.requests.length, 1)
})

t.test('another request under the same name is refused, in the words of its protocol', async (t) => {
  const { local, upstream } = await open(t)
  upstream.json(chatAnswer())
  await send(local, 'a')
  const other = await send(local, 'a', { ...plain, temperature: 1 })
  t.same(code(other), [409, 'idempotency_conflict'])
  t.equal(other.headers['x-should-retry'], 'false')
  const elsewhere = await local.ask({
    method: 'POST',
    path: '/v1/messages',
    headers: { 'idempotency-key': 'a' },
    body: plain
  })
  t.match([elsewhere.status, elsewhere.json()], [409, { type: 'error', error: { type: 'conflict_error' } }])
  t.equal(upstream.requests.length, 1)
})

t.test('a name is that of one API key', async (t) => {
  const { local, upstream } = await open(t)
  for (const tokens of [1, 2, 3]) upstream.json(chatAnswer(10, tokens))
  const texts = new Set<string>()
  for (const secret of [testKey, 'sk-second', 'sk-foreign'])
    texts.add((await send(local, 'a', plain, { authorization: `Bearer ${secret}` })).text)
  t.equal(texts.size, 3)
  t.equal((await send(local, 'a', { ...plain, n: 1 }, { authorization: 'Bearer sk-foreign' })).status, 409)
})

t.test('while it is answered it is refused, with when to ask again; a client that leaves frees the name', async (t) => {
  const { local, upstream } = await open(t)
  let go: () => void = () => {}
  upstream.script(until(new Promise<void>((resolve) => (go = resolve))), ...whole)
  const first = send(local, 'a')
  await upstream.request()
  const busy = await send(local, 'a')
  t.same(code(busy), [409, 'idempotency_in_progress'])
  t.match([busy.headers['retry-after'], busy.headers['x-should-retry']], ['1', undefined])
  t.same(code(await send(local, 'a', { ...plain, n: 1 })), [409, 'idempotency_conflict'])
  go()
  t.equal((await first).status, 200)
  t.equal((await send(local, 'a')).headers['idempotency-replayed'], 'true')

  upstream.script(until(new Promise<void>(() => {})))
  const client = await connect(t, local.url)
  client.send({
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${testKey}`, 'idempotency-key': 'b' },
    body: plain
  })
  await upstream.request(1)
  client.reset()
  upstream.json(chatAnswer())
  await eventually(async () => (await send(local, 'b')).status === 200)
})

t.test('many at once are one', async (t) => {
  const { local, upstream } = await open(t)
  upstream.always(...whole)
  const replies = await Promise.all(Array.from({ length: 20 }, () => send(local, 'rush')))
  t.equal(upstream.requests.length, 1)
  t.same(
    new Set(replies.map(({ status }) => status)),
    new Set(replies.some(({ status }) => status === 409) ? [200, 409] : [200])
  )
  const after = await Promise.all(Array.from({ length: 20 }, () => send(local, 'rush')))
  t.ok(after.every(({ status, headers }) => status === 200 && headers['idempotency-replayed'] === 'true'))
  t.equal(upstream.requests.length, 1)
})

t.test('failures are not remembered, whole or cut', async (t) => {
  const { local, upstream } = await open(t)
  upstream
    .json({ error: { message: 'no' } }, { status: 500 })
    .script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents().slice(0, 2)), reset())
  t.equal((await send(local, 'a', { ...plain, stream: true })).status, 502)
  t.match((await send(local, 'a', { ...plain, stream: true })).text, /upstream_stream_interrupted/)
  t.equal((await send(local, 'refused', { ...plain, max_tokens: 0 })).status, 400)
  upstream.sse(chatEvents()).json(chatAnswer())
  t.match((await send(local, 'a', { ...plain, stream: true })).text, /\[DONE\]/)
  t.equal((await send(local, 'refused')).status, 200)
})

t.test('what has no price has no memory, and what is no name is refused', async (t) => {
  const { local, upstream } = await open(t)
  upstream.json(chatAnswer()).json(chatAnswer())
  for (const name of ['', 'a\u00e9', 'x'.repeat(256)])
    t.same(code(await send(local, name)), [400, 'invalid_field'], name.slice(0, 5))
  for (let i = 0; i < 2; i++)
    t.equal(
      (await local.ask({ path: '/v1/models', headers: { 'idempotency-key': 'a' } })).headers['idempotency-replayed'],
      undefined
    )
  t.equal((await send(local, undefined)).status, 200)
  t.equal((await send(local, undefined)).status, 200, 'without a name each is run')
})

t.test('an answer that is too large is not run again either', async (t) => {
  const { local, upstream } = await open(t)
  upstream.json({ ...chatAnswer(), padding: 'x'.repeat(70_000) })
  t.equal((await send(local, 'large')).status, 200)
  const again = await send(local, 'large')
  t.same(code(again), [409, 'idempotency_answer_gone'])
  t.equal(again.headers['x-should-retry'], 'false')
  t.equal(upstream.requests.length, 1)
})

t.test('a form is the same with another boundary, and not with another file', async (t) => {
  const { local, upstream } = await open(t, { channels: { a: { endpoints: ['chat', 'audio'] } } })
  const sound = randomBytes(400_000)
  upstream.json({ text: 'Hello', usage: { type: 'tokens', input_tokens: 3, output_tokens: 1, total_tokens: 4 } })
  const listen = (boundary: string, value: Buffer): Promise<ReceivedReply> => {
    const { body, type } = formOf(
      [
        { name: 'model', value: testModel },
        { name: 'file', filename: 'a.mp3', type: 'audio/mpeg', value }
      ],
      boundary
    )
    return local.ask({
      method: 'POST',
      path: '/v1/audio/transcriptions',
      headers: { 'idempotency-key': 'form', 'content-type': type },
      body
    })
  }
  t.equal((await listen('one-boundary', sound)).status, 200)
  t.equal((await listen('another-that-is-longer', sound)).headers['idempotency-replayed'], 'true')
  const other = Buffer.from(sound)
  other[200_000]! ^= 1
  t.same(code(await listen('one-boundary', other)), [409, 'idempotency_conflict'])
  t.equal(upstream.requests.length, 1)
})

t.test('it is remembered over a reload, and over a process that is killed', async (t) => {
  const upstream = await Upstream.start(t)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const overrides = { chain, tenants, keys, store: { sqlite: join(folder, 'sluice.db') } }
  const first = await spawnGateway(t, overrides, { upstreams: { a: upstream } })
  upstream.sse(chatEvents())
  const body = { ...plain, stream: true }
  const original = await send(first, 'a', body)
  first.configure({ ...overrides, models: { [testModel]: { price: { input: 3, output: 3 } } } })
  t.match(await ask(t, first.adminUrl, { method: 'POST', path: '/admin/v1/reload' }), { status: 200 })
  t.ok((await send(first, 'a', body)).body.equals(original.body))
  const cost = await spent(first)
  first.process.kill('SIGKILL')
  await once(first.process, 'exit')
  const second = await gateway(t, overrides, { upstreams: { a: upstream } })
  t.ok((await send(second, 'a', body)).body.equals(original.body))
  t.equal(await spent(second), cost)
  t.equal(upstream.requests.length, 1)
})

t.test('while answers are taken down, one tenant leaves room for the next', (t) => {
  const room = new RecordingRoom(new OwnAllowance(), 1000)
  const head = { status: 200, headers: {}, streaming: true }
  const record = (tenant: string): AnswerRecording => {
    const recording = new AnswerRecording(room, tenant, 1000)
    const observer = recording.begin(head)
    for (let nth = 0; nth < 10; nth++) observer.observe(Message.event('a'.repeat(12)))
    observer.end?.(true)
    return recording
  }
  const size = (recording: AnswerRecording): number | undefined =>
    recording.answer(Buffer.alloc(32), () => undefined)!.body?.length
  const [first, second, third] = [record('acme'), record('acme'), record('acme')]
  t.ok(size(first)! >= 200 && size(second)! >= 200)
  t.equal(size(third), undefined, 'one tenant alone has half of the room')
  t.ok(size(record('rival'))! >= 200, 'and the next one finds some')
  first.close()
  t.ok(size(record('acme'))! >= 200, 'what is given back is there again')
  t.end()
})

t.test(
  'whatever becomes of an answer, its name is free in the end, and what it took of the memory is back',
  async (t) => {
    const [room, claims] = [new RecordingRoom(new OwnAllowance(), 1000), new MemoryClaims()]
    const stored = new Map<string, KeptAnswer>()
    /** What the store does at present. */
    let [reads, writes] = [true, true]
    const answers: Answers = {
      async find(id) {
        if (!reads) throw new GatewayError('billing_unavailable', 'Not now.')
        return stored.get(id.toString('hex'))
      },
      async put(id, _tenant, answer) {
        if (!writes) throw new GatewayError('billing_unavailable', 'Not now.')
        stored.set(id.toString('hex'), answer)
      }
    }
    const metrics = { counter: () => ({ add() {} }) }
    const parts = { services: { answers, claims }, metrics, share: () => room }
    const hooks = await idempotency.setup({ largest: 400 }, parts as never)
    const operation = { metering: {} }
    /** One exchange, whose attempts were answered with these pieces; true where the answer was replayed. */
    const run = async (name: string, attempts: readonly string[][], whole = true): Promise<boolean> => {
      const ends: (() => unknown)[] = []
      const slots = new Map<unknown, unknown>([[caller, { tenant: 'acme', key: 'test' }]])
      const exchange = {
        request: { method: 'POST', path: '/', query: '', headers: { 'idempotency-key': name }, operation },
        body: { bytes: Buffer.from('{}') },
        streaming: true,
        get: (slot: unknown) => slots.get(slot),
        find: (slot: unknown) => slots.get(slot),
        set: (slot: unknown, value: unknown) => slots.set(slot, value),
        defer: (end: () => unknown) => ends.push(end),
        replyHeader() {}
      }
      if (await hooks.onRequest!(exchange as never)) return true
      for (const pieces of attempts) {
        const head = { status: 200, headers: {}, streaming: true }
        const stage = (await hooks.onResponse!(exchange as never, head as never)) as Observer
        for (const piece of pieces) stage.observe(Message.event(piece))
        stage.end?.(whole as never)
      }
      for (const end of ends) await end()
      return false
    }
    const isFree = (why: string): void => {
      t.same(claims.all, [], why)
      t.ok(room.take('rival', 1000), why)
      room.give('rival', 1000)
    }
    const some = ['a'.repeat(100)]
    t.equal(await run('kept', [some]), false)
    isFree('it was kept')
    t.equal(await run('kept', []), true)
    isFree('it was given again')
    await run('second', [['b'.repeat(350)], some])
    isFree('another attempt took over')
    t.match(String([...stored.values()][1]!.body), /^data: a+\n\n$/, 'and only what that answered is kept, and counts')
    await run('large', [[...some, 'a'.repeat(400)]])
    isFree('it was too large')
    await t.rejects(run('large', []), { code: 'idempotency_answer_gone' })
    isFree('and is not given again')
    for (const [name, attempts] of Object.entries({ cut: [some], silent: [] })) {
      await run(name, attempts, false)
      isFree(name)
      t.equal(await run(name, [some]), false, 'it is run again')
    }
    writes = false
    await t.rejects(run('unwritten', [some]), { code: 'billing_unavailable' })
    isFree('the store did not take it')
    reads = false
    await t.rejects(run('unread', []), { code: 'billing_unavailable' })
    isFree('the store did not tell')
  }
)

t.test('a task that is repeated is the same task: the same 202, with where it is', async (t) => {
  const price = { input: 1, output: 2, second: 0.1, image: 0.04 }
  const demo = { demo: { protocol: 'simulator', models: { demo: 'demo' } } }
  const local = await gateway(t, { chain, tenants, keys, channels: demo, models: { demo: { price } } })
  const slow = 'A boat [[simulator {"queue_ms":0,"work_ms":1500}]]'
  for (const path of ['/v1/video/generations', '/v1/images/generations/async']) {
    const begin = (name: string): Promise<ReceivedReply> =>
      local.ask({
        path,
        headers: { 'idempotency-key': `${path} ${name}` },
        body: { model: 'demo', prompt: slow, size: '64x64' }
      })
    const first = await begin('once')
    t.match([first.status, first.headers['location']], [202, `${path}/${first.json().id}`], path)
    const same = (reply: ReceivedReply, when: string): void => {
      t.match([reply.status, reply.headers['idempotency-replayed']], [202, 'true'], `${path} ${when}: ${reply.text}`)
      t.match(
        [reply.text, reply.headers['location'], reply.headers['retry-after']],
        [first.text, first.headers['location'], first.headers['retry-after'] ?? undefined],
        `${path} ${when}`
      )
    }
    same(await begin('once'), 'while it is made')
    const isThere = (where = ''): Promise<void> =>
      eventually(async () => (await local.ask({ method: 'GET', path: where })).json().status === 'succeeded', 20_000)
    await isThere(first.headers['location'])
    same(await begin('once'), 'when it is there')
    const another = await begin('another')
    t.not(another.json().id, first.json().id)
    // Nothing is written any more when the store goes.
    await isThere(another.headers['location'])
  }
})
