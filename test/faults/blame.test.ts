// Whose fault a refusal is: the account of the operator, and a model that a channel does not have, are no mistake of a
// client; and what one client does wrong takes no channel from the others.
import t from 'tap'
import type { Test } from 'tap'
import type { CodecName } from '../../core/protocols/translation/codecs.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
import { bytes, head, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { ask, dialects, heard, names, text } from './dialect.ts'

t.setTimeout(600_000)

/** What an upstream says, and what it means. */
interface Said {
  by: CodecName
  status: number
  error: unknown
  /**
   * `account`: whoever asks there gets nothing. `model`: it does not have the model. `unclear`: it does not say whose
   * fault it is. `request`: the client's.
   */
  means: 'account' | 'model' | 'unclear' | 'request'
}

const google = (code: number, status: string, message: string, reason?: string): unknown => ({
  error: {
    code,
    message,
    status,
    ...(reason !== undefined && {
      details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'googleapis.com' }]
    })
  }
})
const openai = (message: string, code: string | null, type = 'invalid_request_error', param?: string): unknown => ({
  error: { message, type, code, ...(param !== undefined && { param }) }
})
const anthropic = (type: string, message: string): unknown => ({ type: 'error', error: { type, message } })
const failing = (body: object): Step[] => {
  const text = JSON.stringify(body)
  return [head(200, { 'content-type': 'application/json', 'content-length': String(text.length) }), bytes(text)]
}
const chat = 'openai-chat'
const own = 'vendor-model-2026'

const cases: Record<string, Said> = {
  'a wrong key of Google': {
    by: 'gemini',
    status: 400,
    error: google(400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.', 'API_KEY_INVALID'),
    means: 'account'
  },
  'a place that Google does not serve': {
    by: 'gemini',
    status: 400,
    error: google(400, 'FAILED_PRECONDITION', 'User location is not supported for the API use.'),
    means: 'account'
  },
  'a service that is off': {
    by: 'gemini',
    status: 403,
    error: google(
      403,
      'PERMISSION_DENIED',
      'Generative Language API has not been used in project 1.',
      'SERVICE_DISABLED'
    ),
    means: 'account'
  },
  'a file of somebody else': {
    by: 'gemini',
    status: 403,
    error: google(403, 'PERMISSION_DENIED', 'You do not have permission to access the File abc or it may not exist.'),
    means: 'request'
  },
  'a model that Google does not have': {
    by: 'gemini',
    status: 404,
    error: google(404, 'NOT_FOUND', `models/${own} is not found for API version v1beta, or is not supported.`),
    means: 'model'
  },
  'a credit that is used up': {
    by: 'anthropic',
    status: 400,
    error: anthropic('invalid_request_error', 'Your credit balance is too low to access the Anthropic API.'),
    means: 'account'
  },
  'a limit of the organization': {
    by: 'anthropic',
    status: 400,
    error: anthropic('invalid_request_error', 'You have reached your specified API usage limits.'),
    means: 'account'
  },
  'a model that Anthropic does not have': {
    by: 'anthropic',
    status: 404,
    error: anthropic('not_found_error', `model: ${own}`),
    means: 'model'
  },
  'no permission': {
    by: 'anthropic',
    status: 403,
    error: anthropic('permission_error', 'Your API key does not have permission to use the specified resource.'),
    means: 'unclear'
  },
  'a hard limit of billing': {
    by: chat,
    status: 400,
    error: openai('Billing hard limit has been reached', 'billing_hard_limit_reached'),
    means: 'account'
  },
  'a quota that is used up': {
    by: chat,
    status: 429,
    error: openai(
      'You exceeded your current quota, please check your plan.',
      'insufficient_quota',
      'insufficient_quota'
    ),
    means: 'account'
  },
  'a country that OpenAI does not serve': {
    by: 'openai-responses',
    status: 403,
    error: openai('Country, region, or territory not supported', 'unsupported_country_region_territory'),
    means: 'account'
  },
  'a model that OpenAI does not have': {
    by: 'openai-responses',
    status: 404,
    error: openai(`The model \`${own}\` does not exist or you do not have access to it.`, 'model_not_found'),
    means: 'model'
  },
  'a model that a project may not use': {
    by: chat,
    status: 403,
    error: openai(`Project \`proj_abc\` does not have access to model \`${own}\``, 'model_not_found'),
    means: 'model'
  },
  'a model that is gone': {
    by: chat,
    status: 400,
    error: openai(`The model \`${own}\` has been decommissioned.`, 'model_decommissioned'),
    means: 'model'
  },
  'a model that nobody knows the words for': {
    by: chat,
    status: 404,
    error: { detail: `No deployment for ${own} here.` },
    means: 'model'
  },
  'a key that is told with 400': {
    by: chat,
    status: 400,
    error: { code: 'Client specified an invalid argument', error: 'Incorrect API key provided: na***ys.' },
    means: 'account'
  },
  'a balance that is used up': { by: chat, status: 402, error: openai('Insufficient Balance', null), means: 'account' },
  'a request that is dearer than what is left': {
    by: chat,
    status: 402,
    error: { error: { code: 402, message: 'This request requires more credits, or fewer max_tokens.' } },
    means: 'unclear'
  },
  'an input that was flagged': {
    by: chat,
    status: 403,
    error: { error: { code: 403, message: 'm requires moderation. Your input was flagged for "violence".' } },
    means: 'request'
  },
  'a page of a firewall': { by: chat, status: 403, error: '<html>Request blocked</html>', means: 'unclear' },
  'words of an account that a client has sent': {
    by: chat,
    status: 400,
    error: openai("Invalid tool name 'Your credit balance is too low'", 'invalid_value'),
    means: 'request'
  },
  'a file that there is not': { by: chat, status: 404, error: openai('No such file: file-1', null), means: 'request' }
}

const list = Object.entries(cases)
const aside =
  /billing|credit balance|quota|your plan|location|region|API key|an organization|project|proj_|vendor-model|usage limits|deployment/i

interface Bench {
  local: LocalGateway
  first: Upstream
  second: Upstream
}

/** For each case a model with one channel and one with two, all of which lead to the same two upstreams. */
async function open(t: Test, keys: readonly string[] = []): Promise<Bench> {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const channels: Record<string, unknown> = {}
  const models: Record<string, unknown> = {}
  for (const [at, [, { by }]] of list.entries()) {
    const to = (upstream: Upstream, model: string, priority: number): unknown => ({
      protocol: by.startsWith('openai') ? 'openai' : by,
      ...(by === 'openai-responses' && { endpoints: ['responses'] }),
      base_url: upstream.url.href,
      private: true,
      credential: `secret-${at}`,
      models: { [model]: own },
      priority
    })
    channels[`only-${at}`] = to(first, `alone-${at}`, 0)
    channels[`one-${at}`] = to(first, `backed-${at}`, 0)
    channels[`two-${at}`] = to(second, `backed-${at}`, 1)
    for (const name of [`alone-${at}`, `backed-${at}`]) models[name] = { price: { input: 1, output: 2 } }
  }
  const local = await gateway(t, {
    channels,
    models,
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      ...keys.map((key, at) => ({ name: `more-${at}`, key, tenant: 'acme' }))
    ],
    chain: [
      { auth: {} },
      { quota: {} },
      { ratelimit: {} },
      { route: { repeats: 0, retry_per_second: 1000 } },
      { 'protocol-translate': {} },
      { 'usage-meter': {} },
      { log: { sink: 'none' } }
    ]
  })
  return { local, first, second }
}

async function stateOf(local: LocalGateway, name: string): Promise<string> {
  const { data } = await local.admin('/admin/v1/channels?limit=1000')
  return data.find((channel: { name: string }) => channel.name === name).health.state
}

t.test('what is not the fault of a client is told it as no such, in no word of the upstream', async (t) => {
  const { local, first } = await open(t)
  for (const [at, [what, { by, status, error, means }]] of list.entries()) {
    for (const client of names) {
      for (const stream of [true, false]) {
        first.json(error, { status })
        const reply = await ask(local, client, `alone-${at}`, stream)
        const place = `${what}, to ${client} of ${by}, ${stream ? 'streamed' : 'whole'}: ${reply.text.slice(0, 200)}`
        t.equal(reply.status, means === 'request' ? status : 502, place)
        if (means === 'request') continue
        t.notMatch(reply.text.replaceAll(`alone-${at}`, ''), aside, place)
      }
    }
  }
  await settled(t, local)
})

t.test('it leads to another channel, and takes the first from nobody unless it is the account', async (t) => {
  const { local, first, second } = await open(t)
  for (const [at, [what, { by, status, error, means }]] of list.entries()) {
    for (const stream of [true, false]) {
      const asked = first.requests.length
      first.json(error, { status })
      if (means !== 'request') {
        if (stream) second.sse(dialects[by].events, { done: false })
        else second.json(dialects[by].whole)
      }
      const reply = await ask(local, by, `backed-${at}`, stream)
      if (means === 'request') t.equal(reply.status, status, what)
      else t.equal(heard(by, reply, stream), text, `${what}: ${reply.text.slice(0, 200)}`)
      t.equal(await stateOf(local, `one-${at}`), means === 'account' ? 'ejected' : 'healthy', what)
      if (means === 'account') {
        t.equal(first.requests.length, asked + 1)
        break
      }
    }
  }
  await settled(t, local)
})

t.test('an upstream that tells it in a stream of status 200 is understood alike', async (t) => {
  const { local, first } = await open(t)
  for (const [at, [what, { by, status, error, means }]] of list.entries()) {
    if (typeof error === 'string' || (status !== 400 && status !== 401)) continue
    const event = by === 'anthropic' ? `event: error\ndata: ${JSON.stringify(error)}\n\n` : error
    first.sse([event], { done: false })
    const reply = await ask(local, by, `alone-${at}`, true)
    if (means === 'request') t.not(reply.status, 200, what)
    else t.equal(reply.status, 502, `${what}: ${reply.text.slice(0, 200)}`)
    if (means !== 'request') t.notMatch(reply.text.replaceAll(`alone-${at}`, ''), aside, what)
  }
  await settled(t, local)
})

t.test('a refusal that does not say whose fault it is takes a channel out when several keys see it', async (t) => {
  const keys = ['sk-more-1111111111111111', 'sk-more-2222222222222222']
  const { local, first, second } = await open(t, keys)
  const at = list.findIndex(([what]) => what === 'no permission')
  const { status, error } = list[at]![1]
  const send = async (key: string): Promise<void> => {
    first.json(error, { status })
    second.json(dialects.anthropic.whole)
    const reply = await local.ask({
      path: '/v1/messages',
      headers: { authorization: `Bearer ${key}` },
      body: { model: `backed-${at}`, max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] }
    })
    t.equal(reply.status, 200)
  }
  for (let i = 0; i < 20; i++) await send(testKey)
  t.equal(await stateOf(local, `one-${at}`), 'healthy', 'one key may be wrong as often as it likes')
  await send(keys[0]!)
  t.equal(await stateOf(local, `one-${at}`), 'healthy')
  first.json(dialects.anthropic.whole)
  t.equal((await ask(local, 'anthropic', `backed-${at}`, false)).status, 200)
  await send(testKey)
  await send(keys[0]!)
  t.equal(await stateOf(local, `one-${at}`), 'healthy', 'an answer in between says that the channel is sound')
  await send(keys[1]!)
  t.equal(await stateOf(local, `one-${at}`), 'ejected', 'three keys without an answer in between')
  await settled(t, local)
})

t.test('what is an answer all the same says nothing of the account either', async (t) => {
  const used = { code: 'insufficient_quota', message: 'You exceeded your current quota, please check your plan.' }
  const missing = { code: 'model_not_found', message: `The model \`${own}\` does not exist.` }

  await t.test('a response that has failed', async (t) => {
    const [vendor, second] = [await Upstream.start(t), await Upstream.start(t)]
    const channels = { vendor: { endpoints: ['responses'] }, second: { endpoints: ['responses'] } }
    const local = await gateway(t, { channels }, { upstreams: { vendor, second } })
    for (const error of [missing, used]) {
      const failed = {
        id: 'resp_1',
        object: 'response',
        created_at: 1,
        status: 'failed',
        model: own,
        output: [],
        error
      }
      vendor.sse(
        [
          { type: 'response.created', response: { ...failed, status: 'in_progress', error: null } },
          { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, content_index: 0, delta: 'So' },
          { type: 'response.failed', response: failed }
        ],
        { done: false }
      )
      const streamed = await local.ask({ path: '/v1/responses', body: { model: testModel, input: 'Hi', stream: true } })
      t.match(streamed.text, /response\.failed/)
      t.notMatch(streamed.text.slice(streamed.text.indexOf('response.failed')).replaceAll(own, ''), aside)
      vendor.json(failed)
      second.json(dialects['openai-responses'].whole)
      const whole = await ask(local, 'openai-responses', testModel, false)
      t.equal(heard('openai-responses', whole, false), text, 'another channel has not failed')
    }
  })

  await t.test('an event of a session', async (t) => {
    const upstream = await socketUpstream(t)
    const local = await gateway(t, sessionsAt(upstream, {}))
    const client = await openRealtime(t, local)
    const { socket } = await upstream.peer()
    const told = [
      { type: 'error', error: { type: 'insufficient_quota', ...used, param: null, event_id: 'mine' } },
      { type: 'error', error: { type: 'invalid_request_error', ...missing, param: 'model' } },
      {
        type: 'response.done',
        response: { id: 'resp_1', status: 'failed', status_details: { type: 'failed', error: used }, output: [] }
      }
    ]
    for (const [at, event] of told.entries()) {
      socket!.send(JSON.stringify(event))
      await eventually(() => client.frames.length > at)
      t.notMatch(String(client.frames[at]!.data), aside, JSON.stringify(event))
      t.match(String(client.frames[at]!.data), /"The upstream /)
    }
    t.match(client.events[0], { type: 'error', error: { type: 'upstream_error', event_id: 'mine' } })
    socket!.close(1000)
    await client.closed
    await settled(t, local)
  })

  await t.test('a task that has failed', async (t) => {
    const vendor = await Upstream.start(t)
    const local = await gateway(
      t,
      {
        channels: { vendor: { endpoints: ['videos'] } },
        models: { [testModel]: { price: { second: 1 } } },
        tasks: { poll: { first: '20ms', most: '50ms' } }
      },
      { upstreams: { vendor } }
    )
    vendor.json({ id: 'video_1', status: 'queued' })
    const begun = await local.ask({ path: '/v1/videos', body: { model: testModel, prompt: 'A boat' } })
    vendor.always(
      ...failing({ id: 'video_1', status: 'failed', error: { ...used, code: 'billing_hard_limit_reached' } })
    )
    let task: any
    await eventually(async () => {
      task = (await local.ask({ path: `/v1/videos/${begun.json().id}` })).json()
      return task.status === 'failed'
    })
    t.match(task.error, { code: 'upstream_auth_failed', message: /^The upstream / })
  })
})
