// Realtime sessions through the whole gateway: who may open one, what passes, and what it costs.
import { join } from 'node:path'
import t from 'tap'
import { makeCertificate } from '../kit/certificate.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime, refusedRealtime } from '../kit/realtime.ts'

const demo = {
  models: { demo: { price: { input: 1, cached_input: 0.5, output: 2, audio_input: 10, audio_output: 20 } } }
}

t.test('a conversation in text', async (t) => {
  const running = await gateway(t, demo)
  const client = await openRealtime(t, running)
  t.match(await client.event('session.created'), { session: { model: 'demo' } })
  client.ask('Hello there. [[simulator {"text": "Good day to you"}]]')
  const done = await client.event('response.done')
  t.match(done, {
    response: {
      status: 'completed',
      usage: { output_tokens: 4, output_token_details: { text_tokens: 4, audio_tokens: 0 } }
    }
  })
  t.equal(
    client.events
      .filter(({ type }) => type === 'response.output_text.delta')
      .map(({ delta }) => delta)
      .join(''),
    'Good day to you'
  )
  client.ask('And again.')
  const second = await client.event('response.done', 2)
  client.socket.close(1000, 'bye')
  t.same(await client.closed, { code: 1000, reason: 'bye' })
  const record = await running.record({ headers: client.headers as Record<string, string> })
  const [one, two] = [done['response'].usage, second['response'].usage]
  t.match(record, {
    endpoint: 'realtime',
    status: 101,
    outcome: 'completed',
    usage_source: 'upstream',
    streamed: true,
    usage: { input: one.input_tokens + two.input_tokens, output: one.output_tokens + two.output_tokens },
    cost_nano: String(1000 * (one.input_tokens + two.input_tokens) + 2000 * (one.output_tokens + two.output_tokens))
  })
  await settled(t, running)
})

t.test('a session goes over TLS, from the client and to the upstream', async (t) => {
  const { cert, key } = makeCertificate(t)
  const listen = { host: '127.0.0.1', port: 0, tls: { cert, key } }
  const folder = t.testdir({ vendor: {}, running: {} })
  const vendor = await gateway(t, { ...demo, listen }, { folder: join(folder, 'vendor') })
  const running = await gateway(
    t,
    {
      ...demo,
      listen,
      channels: {
        demo: {
          protocol: 'openai',
          endpoints: ['realtime'],
          base_url: `${vendor.url}/v1`,
          credential: testKey,
          private: true,
          tls: { ca: cert },
          models: { demo: 'demo' }
        }
      }
    },
    { folder: join(folder, 'running') }
  )
  t.match(running.url, /^https:/)
  const client = await openRealtime(t, running)
  for (const turn of [1, 2]) {
    client.ask('Hello there. [[simulator {"text": "Good day to you"}]]')
    t.match(await client.event('response.done', turn), { response: { status: 'completed' } })
  }
  client.socket.close(1000, 'bye')
  t.same(await client.closed, { code: 1000, reason: 'bye' })
  await settled(t, running)
})

t.test('a turn costs the same, whatever the order of the chain', async (t) => {
  const running = await gateway(t, {
    ...demo,
    chain: [
      { auth: {} },
      { 'usage-meter': {} },
      { log: { sink: 'stdout' } },
      { ratelimit: {} },
      { quota: {} },
      { route: {} },
      { 'protocol-translate': {} }
    ]
  })
  const client = await openRealtime(t, running)
  client.ask('Hello there. [[simulator {"text": "Good day to you"}]]')
  const { usage } = (await client.event('response.done'))['response']
  client.socket.close(1000, 'bye')
  await client.closed
  t.match(await running.record({ headers: client.headers as Record<string, string> }), {
    usage_source: 'upstream',
    cost_nano: String(1000 * usage.input_tokens + 2000 * usage.output_tokens)
  })
  await settled(t, running)
})

t.test('who may not open a session is told so before it is open', async (t) => {
  const running = await gateway(
    t,
    {
      ...demo,
      keys: [
        { name: 'test', key: testKey, tenant: 'acme' },
        {
          name: 'poor',
          key: 'sk-poor-00000000000000000000',
          tenant: 'acme',
          budget: { usd: '0.000000001', per: 'total' }
        },
        { name: 'other', key: 'sk-other-0000000000000000000', tenant: 'acme', models: ['gpt-*'], endpoints: ['*'] },
        { name: 'chatty', key: 'sk-chatty-000000000000000000', tenant: 'acme', endpoints: ['chat'] }
      ]
    },
    { env: { REALTIME_ALLOWED_ORIGINS: 'https://allowed.example, https://other.example:8443' } }
  )
  const bearer = (key: string) => ({ headers: { authorization: `Bearer ${key}` } })
  for (const [asking, status, code] of [
    [bearer('sk-nobody-00000000000000000'), 401, 'invalid_api_key'],
    [{ headers: {} }, 401, 'missing_api_key'],
    [bearer('sk-poor-00000000000000000000'), 429, 'quota_key_exceeded'],
    [bearer('sk-other-0000000000000000000'), 404, 'model_not_found'],
    [bearer('sk-chatty-000000000000000000'), 403, 'endpoint_not_allowed'],
    [{ model: 'unknown' }, 404, 'model_not_found'],
    [{ query: '' }, 400, 'missing_field'],
    ...[
      'https://evil.example',
      'null',
      'https://allowed.example.evil.com',
      'https://allowed.example:444',
      'https://ALLOWED.example',
      'http://allowed.example'
    ].map((origin) => [{ headers: { origin, authorization: `Bearer ${testKey}` } }, 403, 'origin_not_allowed'] as const)
  ] as const) {
    const refused = await refusedRealtime(t, running, asking)
    t.equal(refused.status, status, JSON.stringify(asking))
    t.match(refused.json, { error: { code } })
    t.ok(refused.headers['x-request-id'])
  }
  const plain = await running.ask({ method: 'GET', path: '/v1/realtime?model=demo' })
  t.equal(plain.status, 426)
  t.match(plain.json(), { error: { code: 'upgrade_required' } })
  t.equal(plain.headers['upgrade'], 'websocket')
  for (const origin of ['https://allowed.example', 'https://other.example:8443']) {
    const client = await openRealtime(t, running, { headers: { origin, authorization: `Bearer ${testKey}` } })
    await client.event('session.created')
    client.socket.close()
  }
  await settled(t, running)
})

t.test('a browser sends its key as a subprotocol, and sees one that it offered', async (t) => {
  const running = await gateway(t, demo)
  const client = await openRealtime(t, running, {
    headers: {},
    protocols: ['realtime', `openai-insecure-api-key.${testKey}`, 'openai-beta.realtime-v1']
  })
  t.equal(client.socket.protocol, 'realtime')
  await client.event('session.created')
  const wrong = await refusedRealtime(t, running, {
    headers: {},
    protocols: ['realtime', 'openai-insecure-api-key.sk-wrong-00000000000']
  })
  t.equal(wrong.status, 401)
  const two = await refusedRealtime(t, running, {
    protocols: ['realtime', 'openai-insecure-api-key.sk-wrong-00000000000']
  })
  t.match(two.json, { error: { code: 'conflicting_credentials' } })
  t.equal((await openRealtime(t, running)).headers['sec-websocket-protocol'], undefined, 'who offers none gets none')
  t.notOk(JSON.stringify(running.lines).includes(testKey))
})

t.test('the model of a session stays, and is shown by the name that the client knows', async (t) => {
  const running = await gateway(t, { channels: { demo: { protocol: 'simulator', models: { demo: 'demo-upstream' } } } })
  const client = await openRealtime(t, running)
  t.equal((await client.event('session.created'))['session'].model, 'demo')
  client.send({
    type: 'session.update',
    event_id: 'mine',
    session: { type: 'realtime', model: 'forbidden', instructions: 'Be brief.' }
  })
  t.match(await client.event('error'), { error: { code: 'invalid_field', param: 'session.model', event_id: 'mine' } })
  client.send({ type: 'session.update', session: { type: 'realtime', model: 'demo', instructions: 'Be brief.' } })
  t.match(await client.event('session.updated'), { session: { model: 'demo', instructions: 'Be brief.' } })
  client.socket.send('{"type":"input_audio_buffer.clear","type":"session.update","session":{"model":"forbidden"}}')
  t.match(await client.event('error', 2), { error: { code: 'invalid_request' } })
  t.equal(client.events.filter(({ type }) => type === 'session.updated').length, 1)
})

t.test('a budget that is spent in mid-session refuses the next response and keeps the session', async (t) => {
  const running = await gateway(t, {
    models: { demo: { price: { input: 1, output: 2 }, context_window: 1000, max_output_tokens: 100 } },
    keys: [{ name: 'test', key: testKey, tenant: 'acme', budget: { usd: '0.0015', per: 'total' } }]
  })
  const client = await openRealtime(t, running)
  await client.event('session.created')
  client.ask(
    'One. [[simulator {"tokens": 20, "usage": {"input_tokens": 900, "output_tokens": 20, "total_tokens": 920}}]]'
  )
  await client.event('response.done')
  client.say('Two.').send({ type: 'response.create', event_id: 'second' })
  const error = await client.event('error')
  t.match(error, { error: { type: 'quota_error', code: 'quota_key_exceeded', event_id: 'second' } })
  client.send({ type: 'input_audio_buffer.clear' })
  await client.event('input_audio_buffer.cleared')
  t.equal(client.events.filter(({ type }) => type === 'response.created').length, 1)
  client.socket.close(1000)
  const record = await running.record({ headers: client.headers as Record<string, string> })
  t.match(record, {
    outcome: 'completed',
    cost_nano: '940000',
    reason: { by: 'budget', scope: 'key:test', limit_nano: '1500000', posted_nano: '940000' }
  })
  await settled(t, running)
})

t.test('responses that nobody asked for, cancelled ones and transcripts are charged too', async (t) => {
  const running = await gateway(t, demo)
  const client = await openRealtime(t, running)
  client.send({
    type: 'session.update',
    session: { audio: { input: { transcription: { model: 'gpt-4o-transcribe' } } } }
  })
  await client.event('session.updated')
  const second = Buffer.alloc(48_000)
  client.send({ type: 'input_audio_buffer.append', audio: Buffer.from(second).fill(1).toString('base64') })
  client.send({ type: 'input_audio_buffer.append', audio: second.toString('base64') })
  const unasked = (await client.event('response.done'))['response']
  t.ok(unasked.usage.output_token_details.audio_tokens > 0)
  t.equal(unasked.usage.input_token_details.audio_tokens, 20)
  const transcript = (await client.event('conversation.item.input_audio_transcription.completed'))['usage']
  client.ask('Count. [[simulator {"tokens": 1000, "gap_ms": 5}]]')
  await client.event('response.output_text.delta', 3)
  client.send({ type: 'response.cancel' })
  const cancelled = (await client.event('response.done', 2))['response']
  t.equal(cancelled.status, 'cancelled')
  client.socket.close(1000)
  const record = await running.record({ headers: client.headers as Record<string, string> })
  const usages = [unasked.usage, transcript, cancelled.usage]
  const sum = (pick: (usage: any) => number): number => usages.reduce((all, usage) => all + (pick(usage) ?? 0), 0)
  t.match(record.usage, {
    audio_input: sum((usage) => usage.input_token_details?.audio_tokens),
    audio_output: sum((usage) => usage.output_token_details?.audio_tokens ?? 0),
    output: sum((usage) => usage.output_token_details?.text_tokens ?? usage.output_tokens)
  })
  await settled(t, running)
})

t.test('a key that is revoked ends its session within a second or so', async (t) => {
  const running = await gateway(t, demo)
  const client = await openRealtime(t, running)
  await client.event('session.created')
  running.configure({ ...demo, keys: [{ name: 'another', key: 'sk-another-00000000000000000', tenant: 'acme' }] })
  t.ok((await running.gateway.reload('test')).ok)
  const { code } = await client.closed
  t.equal(code, 1008)
  t.match(client.events.at(-1), { type: 'error', error: { code: 'invalid_api_key' } })
  await settled(t, running)
})

t.test('a session ends when its key expires or loses its model, however long ago it was opened', async (t) => {
  const priced = { price: { input: 1, output: 2 } }
  const models = { demo: priced, other: priced }
  const channels = { demo: { protocol: 'simulator', models: { demo: 'demo', other: 'other' } } }
  const key = { name: 'test', key: testKey, tenant: 'acme' }
  const running = await gateway(t, { channels, models, keys: [key] })
  for (const [change, code] of [
    [{ expires: new Date(Date.now() - 60_000).toISOString() }, 'expired_api_key'],
    [{ expires: new Date(Date.now() + 2000).toISOString() }, 'expired_api_key'],
    [{ models: ['other'] }, 'model_not_found'],
    [{ endpoints: ['chat'] }, 'endpoint_not_allowed']
  ] as const) {
    running.configure({ channels, models, keys: [key] })
    t.ok((await running.gateway.reload('test')).ok)
    const client = await openRealtime(t, running)
    await client.event('session.created')
    running.configure({ channels, models, keys: [{ ...key, ...change }] })
    t.ok((await running.gateway.reload('test')).ok)
    t.equal((await client.closed).code, 1008, code)
    t.match(client.events.at(-1), { type: 'error', error: { code } })
  }
  await settled(t, running)
})

t.test('a drain ends a session with 1012 between two responses, at once when none is under way', async (t) => {
  const running = await gateway(t, demo)
  const [idle, busy] = [await openRealtime(t, running), await openRealtime(t, running)]
  await idle.event('session.created')
  busy.ask('[[simulator {"text": "one two three four five", "gap_ms": 100}]]')
  await busy.event('response.output_text.delta')
  const closing = running.gateway.close({ drain: true })
  t.match(await idle.closed, { code: 1012, reason: /restarted/ })
  t.not(busy.socket.readyState, 3, 'a response is under way')
  t.equal((await busy.closed).code, 1012)
  t.match(busy.events.at(-1), { type: 'response.done', response: { status: 'completed' } })
  t.same(await closing, { cut: 0 })
})

t.test('a drain gives a response of a session its time, then closes the session with 1012', async (t) => {
  const running = await gateway(t, { ...demo, limits: { drain_timeout: '150ms' } })
  const client = await openRealtime(t, running)
  client.ask('[[simulator {"text": "one two three four five", "gap_ms": 1000}]]')
  await client.event('response.output_text.delta')
  const closing = running.gateway.close({ drain: true })
  t.equal((await client.closed).code, 1012)
  t.match(client.events.at(-1), { type: 'error', error: { code: 'draining' } })
  t.same(await closing, { cut: 1 })
})

t.test('a session holds the slot of its key, and nothing of its own at the end', async (t) => {
  const running = await gateway(t, {
    ...demo,
    keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { concurrency: 1, rpm: 100, tpm: 100_000 } }]
  })
  const client = await openRealtime(t, running)
  t.equal(client.headers['x-ratelimit-limit'], '1')
  t.match((await refusedRealtime(t, running)).json, { error: { code: 'rate_limit_concurrency' } })
  client.ask('Hi')
  await client.event('response.done')
  client.socket.terminate()
  let again: Awaited<ReturnType<typeof openRealtime>> | undefined
  await eventually(async () => {
    again = await openRealtime(t, running).catch(() => undefined)
    return again !== undefined
  })
  again!.socket.close()
  await settled(t, running)
})
