// Responses that the gateway makes in the background by itself: begun, polled, followed, called off, lost in a crash,
// and settled once.
import { copyFileSync, cpSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startSimulator } from '../../core/simulator/simulator.ts'
import type { Simulator } from '../../core/simulator/simulator.ts'
import { WorkList } from '../../core/store/embedded/book/work-list.ts'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { isOpen } from '../../core/store/works.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { connect } from '../kit/client.ts'
import { gateway, spawnGateway, testKey } from '../kit/gateway.ts'
import type { TestGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { readEvents } from '../kit/sse.ts'
import { rows } from '../money/rig.ts'

t.setTimeout(600_000)

const path = '/v1/responses'
const price = { input: 1, output: 2 }
const secret = 'a secret of the operator that nobody else knows'
const foreign = 'sk-test-foreign-0000000000000'
const kinds = ['responses', 'chat', 'anthropic', 'gemini'] as const

/** A gateway in front of simulators of its own, with a store that outlives it. */
async function open(
  t: Test,
  more: object = {}
): Promise<{ upstream: Simulator; overrides: Record<string, unknown>; database: string }> {
  const upstream = await startSimulator({ port: 0 })
  t.teardown(() => upstream.close())
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const database = join(folder, 'sluice.db')
  const channelOf = (kind: string): object => ({
    protocol: kind === 'anthropic' || kind === 'gemini' ? kind : 'openai',
    base_url: new URL(kind === 'gemini' ? '/v1beta' : '/v1', upstream.url).href,
    private: true,
    credential: 'secret',
    ...(kind === 'responses' || kind === 'chat' ? { endpoints: [kind] } : {}),
    models: { [`via-${kind}`]: 'demo' }
  })
  return {
    upstream,
    database,
    overrides: {
      channels: Object.fromEntries(kinds.map((kind) => [kind, channelOf(kind)])),
      models: Object.fromEntries(kinds.map((kind) => [`via-${kind}`, { price, state: 'gateway' }])),
      tenants: { acme: {}, other: {} },
      keys: [
        { name: 'test', key: testKey, tenant: 'acme' },
        { name: 'foreign', key: foreign, tenant: 'other' }
      ],
      state: { key: secret },
      store: { sqlite: database },
      ...more
    }
  }
}

const directive = (members: object): string => `Tell me. [[simulator ${JSON.stringify(members)}]]`
const create = (local: TestGateway, members: object, more: object = {}): Promise<ReceivedReply> =>
  local.ask({ path, body: { model: 'via-chat', input: directive(members), background: true, ...more } })
const read = (local: TestGateway, id: string, rest = ''): Promise<ReceivedReply> =>
  local.ask({ method: 'GET', path: `${path}/${id}${rest}` })
const statusOf = async (local: TestGateway, id: string): Promise<string> => (await read(local, id)).json().status

async function ended(local: TestGateway, id: string): Promise<any> {
  await eventually(async () => !/queued|in_progress/.test(await statusOf(local, id)), 10_000)
  return (await read(local, id)).json()
}

async function books({ admin }: TestGateway): Promise<{ posted: bigint; pending: bigint }> {
  const { data } = (await admin('/admin/v1/balances')) as { data: Record<string, string>[] }
  const total =
    data.find(({ scope, window }) => scope === 'tenant:acme' && window === 'total') ??
    data.find(({ scope }) => scope === 'tenant:acme')
  return { posted: BigInt(total?.['posted_nano'] ?? 0), pending: BigInt(total?.['pending_nano'] ?? 0) }
}

function costOf({ stats: { counted } }: Simulator): bigint {
  return BigInt((counted.prompt ?? 0) * price.input + (counted.completion ?? 0) * price.output) * 1000n
}

t.test(
  'by way of every channel: answered at once, read when it is there, gone on with, and charged once',
  async (t) => {
    const { upstream, overrides, database } = await open(t)
    const local = await gateway(t, overrides)
    for (const kind of kinds) {
      const reply = await create(
        local,
        { text: 'Done at last.', first_byte_ms: 500 },
        { model: `via-${kind}`, instructions: 'Be brief.', metadata: { a: 'b' }, max_output_tokens: 100 }
      )
      const begun = reply.json()
      t.match(
        begun,
        {
          id: /^resp_[0-9a-f]{48}$/,
          object: 'response',
          status: 'queued',
          background: true,
          store: true,
          model: `via-${kind}`,
          instructions: 'Be brief.',
          metadata: { a: 'b' },
          output: [],
          error: null
        },
        kind
      )
      t.ok((await books(local)).pending > 0n, `${kind}: what it may cost is held`)
      t.match(
        (await read(local, begun.id)).json(),
        { id: begun.id, status: /queued|in_progress/, output: [], usage: null },
        kind
      )
      t.match(
        (await local.ask({ path, body: { model: `via-${kind}`, input: 'x', previous_response_id: begun.id } })).json(),
        { error: { code: 'invalid_request', param: 'previous_response_id' } },
        `${kind}: nothing goes on with it yet`
      )
      const response = await ended(local, begun.id)
      t.match(
        response,
        {
          id: begun.id,
          status: 'completed',
          background: true,
          store: true,
          output: [{ content: [{ text: 'Done at last.' }] }]
        },
        kind
      )
      t.match(
        await local.record(reply),
        {
          endpoint: 'responses',
          channel: kind,
          outcome: 'completed',
          status: 200,
          usage: { output: response.usage.output_tokens },
          usage_source: 'upstream'
        },
        kind
      )
      const second = await create(
        local,
        { text: 'And then.' },
        { model: `via-${kind}`, previous_response_id: begun.id }
      )
      const next = await ended(local, second.json().id)
      t.match(next, { status: 'completed', previous_response_id: begun.id }, kind)
      t.ok(next.usage.input_tokens > response.usage.input_tokens, `${kind}: the model saw the first turn`)
      t.match(
        (await read(local, begun.id, '?stream=true')).json(),
        { error: { param: 'stream' } },
        `${kind}: it was no stream`
      )
      t.match((await read(local, begun.id, '/input_items')).json().data, [{ role: 'user', content: /Tell me/ }], kind)
      t.equal(
        (await local.ask({ method: 'POST', path: `${path}/${begun.id}/cancel` })).json().status,
        'completed',
        `${kind}: what has ended stays as it is`
      )
      t.equal((await local.ask({ method: 'DELETE', path: `${path}/${begun.id}` })).status, 200)
      t.equal((await read(local, begun.id)).status, 404)
    }
    const { posted, pending } = await books(local)
    t.same([posted, pending], [costOf(upstream), 0n])
    await local.gateway.close()
    t.same(verify(database), [])
  }
)

t.test(
  'a stream is seen by its client, by whoever takes it up, from any event on, and again when it is over',
  async (t) => {
    const { overrides } = await open(t)
    const local = await gateway(t, overrides)
    const whole = (reply: { body: Buffer | string }): any[] =>
      readEvents(reply.body as never).map(({ data }) => JSON.parse(data))
    for (const kind of kinds) {
      const client = await connect(t, local.url)
      client.send({
        method: 'POST',
        path,
        headers: { authorization: `Bearer ${testKey}` },
        body: {
          model: `via-${kind}`,
          input: directive({ text: 'One two three four five six seven eight.', gap_ms: 15 }),
          background: true,
          stream: true
        }
      })
      await client.body('"delta"')
      const id = /"id":"(resp_[0-9a-f]{48})"/.exec(
        Buffer.concat(client.reads.map(({ bytes }) => bytes)).toString()
      )![1]!
      t.equal(await statusOf(local, id), 'in_progress', kind)
      client.reset()
      const [all, some] = await Promise.all([
        read(local, id, '?stream=true'),
        read(local, id, '?stream=true&starting_after=2')
      ])
      const events = whole(all)
      t.equal(events[0].type, 'response.created', kind)
      t.match(
        events.at(-1),
        { type: 'response.completed', response: { id, background: true, output: [{ content: [{ text: /eight/ }] }] } },
        kind
      )
      t.same(
        events.map(({ sequence_number }) => sequence_number),
        events.map((_, index) => index),
        kind
      )
      t.same(whole(some), events.slice(3), kind)
      t.same(whole(await read(local, id, '?stream=true')), events, `${kind}: the same when it is over`)
      t.same(whole(await read(local, id, '?stream=true&starting_after=4')), events.slice(5), kind)
      for (const after of ['-1', 'x', '1.5', '999999', '9'.repeat(40)])
        t.match(
          (await read(local, id, `?stream=true&starting_after=${after}`)).json(),
          { error: { code: 'invalid_field', param: 'starting_after' } },
          `${kind}: ${after}`
        )
      t.match(await read(local, id), { status: 200 })
      t.strictSame((await read(local, id)).json(), events.at(-1).response, kind)
    }
    const reply = await create(local, { text: 'Seen.' }, { stream: true })
    t.match(whole(reply).at(-1), { type: 'response.completed' }, 'who stays sees all of it')
    t.match(await local.record(reply), { streamed: true, outcome: 'completed', usage_source: 'upstream' })
  }
)

t.test(
  'a stream that is called off ends with the state of its response, wherever it was, for all who follow it',
  async (t) => {
    const { overrides, database } = await open(t, { tasks: { running: 1 } })
    const local = await gateway(t, overrides)
    const all = (reply: { body: Buffer | string }): any[] =>
      readEvents(reply.body as never).map(({ data }) => JSON.parse(data))
    const begin = async (
      kind: string,
      members: object
    ): Promise<{ id: string; whole: Promise<any[]>; request: { headers: Record<string, string> } }> => {
      const reply = await fetch(`${local.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: `via-${kind}`, input: directive(members), background: true, stream: true })
      })
      const reader = reply.body!.getReader()
      let text = ''
      const go = async (until: (text: string) => boolean): Promise<void> => {
        for (let done = false; !done && !until(text);) {
          const piece = await reader.read()
          done = piece.done
          text += Buffer.from(piece.value ?? []).toString()
        }
      }
      await go((text) => text.includes('delta"'))
      return {
        id: /"id":"(resp_[0-9a-f]{48})"/.exec(text)![1]!,
        whole: go(() => false).then(() => all({ body: text })),
        request: { headers: { 'x-request-id': reply.headers.get('x-request-id')! } }
      }
    }
    for (const kind of kinds) {
      const { id, whole, request } = await begin(kind, { tokens: 500, gap_ms: 20 })
      const followed = read(local, id, '?stream=true')
      t.equal((await local.ask({ method: 'POST', path: `${path}/${id}/cancel` })).json().status, 'cancelled', kind)
      const events = await whole
      t.match(
        events.at(-1),
        {
          type: 'response.incomplete',
          response: { id, status: 'cancelled', output: [], error: null, incomplete_details: null, background: true }
        },
        kind
      )
      t.same(
        events.map(({ sequence_number }) => sequence_number),
        events.map((_, index) => index),
        kind
      )
      t.strictSame(events.at(-1).response, (await read(local, id)).json(), `${kind}: as it is read`)
      t.same(all(await followed), events, `${kind}: who took it up is told the same`)
      t.match(await local.record(request), { outcome: 'aborted' }, kind)
    }
    const first = await begin('chat', { tokens: 500, gap_ms: 20 })
    const waiting = fetch(`${local.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'via-chat', input: 'Hi', background: true, stream: true })
    })
    const others = (): string[] =>
      rows(database, 'SELECT id FROM work WHERE open = 1')
        .map(({ id }) => id as string)
        .filter((id) => id !== first.id)
    await eventually(() => others().length === 1)
    t.equal((await local.ask({ method: 'POST', path: `${path}/${others()[0]}/cancel` })).json().status, 'cancelled')
    const told = await waiting
    t.match([told.status, told.headers.get('content-type')], [200, /^text\/event-stream/])
    const events = all({ body: await told.text() })
    t.match(
      events,
      [
        { type: 'response.created', response: { status: 'queued' } },
        { type: 'response.incomplete', sequence_number: 1, response: { status: 'cancelled' } }
      ],
      'one that waits for its turn'
    )
    t.equal(events.length, 2)
    await local.ask({ method: 'DELETE', path: `${path}/${first.id}` })
    t.match(
      (await first.whole).at(-1),
      { type: 'response.incomplete', response: { status: 'cancelled' } },
      'one that is deleted'
    )
    await eventually(async () => (await books(local)).pending === 0n)
  }
)

t.test('who follows a response that is silent, and leaves, is gone soon', async (t) => {
  // An upstream would be read on for so long.
  const { overrides } = await open(t, { limits: { disconnect_drain: { time: '1h' } } })
  const local = await gateway(t, overrides)
  const listen = async (method: string, url: string, body?: object): Promise<{ text: string; leave(): void }> => {
    const left = new AbortController()
    const reply = await fetch(`${local.url}${url}`, {
      method,
      signal: left.signal,
      headers: { authorization: `Bearer ${testKey}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) })
    })
    const reader = reply.body!.getReader()
    let text = ''
    while (!text.includes('delta"')) text += Buffer.from((await reader.read()).value!).toString()
    return { text, leave: () => left.abort() }
  }
  const input = directive({ tokens: 50, cut: 'stall', after_events: 20 })
  const first = await listen('POST', path, { model: 'via-chat', input, background: true, stream: true })
  const [, id] = /"id":"(resp_[0-9a-f]{48})"/.exec(first.text)!
  const followers = [
    await listen('GET', `${path}/${id}?stream=true`),
    await listen('GET', `${path}/${id}?stream=true&starting_after=0`)
  ]
  const underWay = async (): Promise<number> =>
    ((await local.admin('/admin/v1/requests/under-way')) as { data: unknown[] }).data.length
  t.equal(await underWay(), 3)
  for (const { leave } of followers) leave()
  await eventually(async () => (await underWay()) === 1, 20_000)
  t.equal((await read(local, id!)).json().status, 'in_progress')
  await local.ask({ method: 'POST', path: `${path}/${id}/cancel` })
})

t.test('what a response was the answer to comes in pages, and a page that there is not is an error', async (t) => {
  const { overrides } = await open(t)
  const local = await gateway(t, overrides)
  const input = Array.from({ length: 7 }, (_, n) => ({
    role: 'user',
    content: `Word ${n}`,
    ...(n === 3 && { id: 'msg_mine' }),
    ...(n === 4 && { id: null }),
    ...(n === 5 && { id: 'msg_mine' }),
    ...(n === 6 && { id: '' })
  }))
  const { id } = (await local.ask({ path, body: { model: 'via-chat', input } })).json()
  const page = async (query: string): Promise<any> => (await read(local, id, `/input_items${query}`)).json()
  for (const [order, due] of [
    ['asc', input],
    ['desc', [...input].reverse()]
  ] as const) {
    const seen: any[] = []
    for (let after = ''; ; after = `&after=${seen.at(-1).id}`) {
      const { data, has_more, first_id, last_id } = await page(`?limit=2&order=${order}${after}`)
      t.same([first_id, last_id], [data[0].id, data.at(-1).id])
      seen.push(...data)
      if (!has_more || seen.length > input.length) break
    }
    t.match(
      seen,
      due.map(({ content }) => ({ content })),
      order
    )
    t.equal(new Set(seen.map((item) => item.id)).size, 7, order)
    t.ok(
      seen.every((item) => typeof item.id === 'string' && item.id !== ''),
      order
    )
  }
  t.same((await page('')).data, (await page('?limit=100&order=desc&limit=1')).data, 'of two the first counts')
  t.match(await page('?after=msg_mine&order=asc'), { data: [{ content: 'Word 4' }, {}, {}], has_more: false })
  const last = (await page('?order=desc&limit=100')).data.at(-1).id
  t.same(await page(`?after=${last}`), { object: 'list', data: [], first_id: null, last_id: null, has_more: false })
  const odd: [string, string][] = [
    ...['0', '-1', '101', '1.5', '1e1', '0x10', '', '%20', 'x', '9'.repeat(400)].map((limit): [string, string] => [
      `limit=${limit}`,
      'limit'
    ]),
    ...['', 'up', 'ASC', 'asc,desc'].map((order): [string, string] => [`order=${order}`, 'order']),
    ...['', 'msg_unknown', `${last}x`, '../..', id, 'null'].map((after): [string, string] => [
      `after=${after}`,
      'after'
    ])
  ]
  for (const [query, param] of odd)
    t.match(await page(`?${query}`), { error: { code: 'invalid_field', param } }, query.slice(0, 40))
})

t.test("what is called off or fails says so, charges what there was, and is nobody else's", async (t) => {
  const { overrides, upstream, database } = await open(t)
  const local = await gateway(t, overrides)
  const called = (await create(local, { first_byte_ms: 20_000 })).json().id
  const another = { authorization: `Bearer ${foreign}` }
  const unknown = await local.ask({ method: 'GET', path: `${path}/resp_unknown`, headers: another })
  for (const [method, rest] of [
    ['GET', ''],
    ['GET', '?stream=true'],
    ['POST', '/cancel'],
    ['DELETE', ''],
    ['GET', '/input_items']
  ] as const) {
    const reply = await local.ask({ method, path: `${path}/${called}${rest}`, headers: another })
    t.same([reply.status, reply.body.toString()], [404, unknown.body.toString()], `${method} ${rest}`)
  }
  await eventually(async () => (await statusOf(local, called)) === 'in_progress', 10_000)
  t.match((await local.ask({ method: 'POST', path: `${path}/${called}/cancel` })).json(), {
    id: called,
    status: 'cancelled',
    output: []
  })
  t.equal((await local.ask({ method: 'POST', path: `${path}/${called}/cancel` })).json().status, 'cancelled', 'again')
  t.equal((await books(local)).pending, 0n)

  const failed = await ended(
    local,
    (await create(local, { status: 500, body: { error: { message: 'no' } } })).json().id
  )
  t.match(failed, { status: 'failed', error: { code: 'server_error', message: /./ }, output: [], usage: null })
  const streamed = await create(local, { status: 500, body: { error: { message: 'no' } } }, { stream: true })
  t.ok(streamed.status >= 500, 'a stream that does not begin is an error')
  t.match(streamed.json(), { error: { type: /./ } })
  const broken = await create(local, { tokens: 20, cut: 'reset', after_events: 5 }, { stream: true })
  t.notMatch(broken.body.toString(), 'response.completed')
  const breaking = await connect(t, local.url)
  breaking.send({
    method: 'POST',
    path,
    headers: { authorization: `Bearer ${testKey}` },
    body: {
      model: 'via-chat',
      input: directive({ tokens: 40, gap_ms: 30, cut: 'reset', after_events: 12 }),
      background: true,
      stream: true
    }
  })
  await breaking.body('"delta"')
  const followed = await read(
    local,
    /"id":"(resp_[0-9a-f]{48})"/.exec(Buffer.concat(breaking.reads.map(({ bytes }) => bytes)).toString())![1]!,
    '?stream=true'
  )
  t.match(
    [followed.status, JSON.parse(readEvents(followed.body).at(-1)!.data)],
    [200, { type: 'error', error: { type: 'upstream_error', message: /connection was lost/ } }],
    'who follows it is told so'
  )
  const whole = (await create(local, { first_byte_ms: 20_000 })).json().id
  t.match(
    (await read(local, whole, '?stream=true')).json(),
    { error: { code: 'invalid_field', param: 'stream' } },
    'what is no stream is not followed'
  )
  t.equal((await local.ask({ method: 'DELETE', path: `${path}/${whole}` })).status, 200)
  const gone = (await create(local, { first_byte_ms: 20_000 })).json().id
  t.equal((await local.ask({ method: 'DELETE', path: `${path}/${gone}` })).status, 200)
  t.equal((await read(local, gone)).status, 404)
  await eventually(async () => (await books(local)).pending === 0n)
  t.ok((await books(local)).posted >= 0n && upstream.stats.counted !== undefined)
  await local.gateway.close()
  t.same(verify(database), [])
})

t.test('one that is not to be stored is there for a while, and a repeated request is one response', async (t) => {
  const { overrides } = await open(t, {
    chain: [
      { auth: {} },
      { idempotency: {} },
      { quota: {} },
      { ratelimit: {} },
      { route: {} },
      { 'protocol-translate': {} },
      { 'usage-meter': {} },
      { log: { sink: 'none' } }
    ]
  })
  const local = await gateway(t, overrides)
  const shortly = (await create(local, { text: 'Short.' }, { store: false })).json()
  t.match(shortly, { store: false, background: true })
  t.match(await ended(local, shortly.id), { status: 'completed', store: false })
  for (const more of [{ background: true }, { background: true, stream: true }, {}, { stream: true }]) {
    const ask = (): Promise<ReceivedReply> =>
      local.ask({
        path,
        headers: { 'idempotency-key': `k-${JSON.stringify(more)}`, authorization: `Bearer ${testKey}` },
        body: { model: 'via-chat', input: directive({ text: 'Once.' }), ...more }
      })
    const idOf = (reply: ReceivedReply): string => /"id":\s*"(resp_[0-9a-f]{48})"/.exec(reply.body.toString())![1]!
    const first = idOf(await ask())
    await ended(local, first)
    const again = await ask()
    t.equal(again.headers['idempotency-replayed'], 'true', JSON.stringify(more))
    t.equal(idOf(again), first, JSON.stringify(more))
  }
  const before = (await local.ask({ path, body: { model: 'via-chat', input: directive({ text: 'Once.' }) } })).json().id
  const after = (): Promise<ReceivedReply> =>
    local.ask({
      path,
      headers: { 'idempotency-key': 'after', authorization: `Bearer ${testKey}` },
      body: { model: 'via-chat', input: 'Go on.', previous_response_id: before }
    })
  const { id } = (await after()).json()
  await local.ask({ method: 'DELETE', path: `${path}/${before}` })
  t.equal((await after()).json().id, id, 'what was answered is given again, whatever became of what it went on with')
  t.match(
    (await local.ask({ path, body: { model: 'via-chat', input: 'Go on.', previous_response_id: before } })).json(),
    { error: { code: 'response_not_found' } }
  )
})

t.test('killed in the middle: it has failed for its client, and nothing is held', async (t) => {
  const { overrides, database } = await open(t)
  const first = await spawnGateway(t, overrides)
  const ids = await Promise.all(
    [0, 1, 2].map(async () => (await create(first, { first_byte_ms: 60_000 })).json().id as string)
  )
  await eventually(async () => (await statusOf(first, ids[0]!)) === 'in_progress', 10_000)
  first.process.kill('SIGKILL')
  await first.exited
  // As it is when a kill comes between the sealed file and its row.
  const results = `${database}.results`
  const [sealed] = readdirSync(results)
  const left = ['0'.repeat(64), `${'1'.repeat(64)}.part`]
  for (const name of left) copyFileSync(join(results, sealed!), join(results, name))
  const second = await spawnGateway(t, overrides)
  for (const id of ids)
    t.match(await ended(second, id), { id, status: 'failed', error: { code: 'server_error', message: /restarted/ } })
  t.same(await books(second), { posted: 0n, pending: 0n }, 'nobody can get them, and nobody pays for them')
  await eventually(() => !readdirSync(results).some((name) => left.includes(name)))
  t.equal(readdirSync(results).length, ids.length, 'nothing else went')
  second.process.kill('SIGTERM')
  await second.exited
  t.same(verify(database), [])
})

t.test('what cannot be kept has failed and costs nobody anything, but its operator', async (t) => {
  const { overrides, database } = await open(t)
  const local = await gateway(t, overrides)
  const id = (await create(local, { text: 'What was made.', first_byte_ms: 1000 })).json().id as string
  const results = `${database}.results`
  renameSync(results, `${results}.aside`)
  writeFileSync(results, 'no folder')
  let data: any[] = []
  await eventually(async () => {
    data = (await local.admin('/admin/v1/requests?endpoint=responses')).data
    return data.length === 1
  }, 30_000)
  rmSync(results)
  renameSync(`${results}.aside`, results)
  t.match(data, [{ outcome: 'failed', cost_nano: '0', attempts: [{ channel: 'chat' }] }])
  t.equal((await ended(local, id)).status, 'failed')
  t.same(await books(local), { posted: 0n, pending: 0n })
  await local.gateway.close()
  t.match(rows(database, 'SELECT kind, amount > 0 AS dear, source FROM journal ORDER BY kind'), [
    { kind: 'cost', dear: 1, source: 'upstream' },
    { kind: 'void', dear: 0 }
  ])
  t.same(verify(database), [])
})

t.test('killed between its result and its charge: it is charged once by the next start, and shown', async (t) => {
  const { overrides, database, upstream } = await open(t)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const { put } = WorkList.prototype
  t.teardown(() => (WorkList.prototype.put = put))
  WorkList.prototype.put = async function (work) {
    await put.call(this, work)
    // The files as a kill at this moment leaves them.
    if (work.seen && isOpen(work)) cpSync(dirname(database), folder, { recursive: true })
  }
  const first = await gateway(t, overrides)
  const id = (await create(first, { text: 'What was made.' })).json().id as string
  t.equal((await ended(first, id)).status, 'completed')
  const charged = await books(first)
  t.same(charged, { posted: costOf(upstream), pending: 0n })
  await first.gateway.close()

  const copy = join(folder, basename(database))
  const second = await gateway(t, { ...overrides, store: { sqlite: copy } })
  const response = await ended(second, id)
  t.match(response, { id, status: 'completed', output: [{ content: [{ text: 'What was made.' }] }] })
  t.same(await books(second), charged)
  const { data } = await second.admin('/admin/v1/requests?endpoint=responses')
  t.match(data, [
    { outcome: 'completed', cost_nano: String(charged.posted), usage_source: 'upstream', channel: 'chat' }
  ])
  await second.gateway.close()
  t.same(verify(copy), [])
})
