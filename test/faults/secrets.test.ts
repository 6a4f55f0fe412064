// What an upstream quotes in its errors: no secret of the file reaches a client, a record or the log, in whole or in
// part.
import t from 'tap'
import type { Test } from 'tap'
import type { ReceivedReply } from '../kit/client.ts'
import type { Channel } from '../../core/catalogue/catalogue.ts'
import { Message } from '../../core/contract/message.ts'
import { cleanText } from '../../core/exchange/failures/redact.ts'
import { withCleanErrors } from '../../core/exchange/failures/told-errors.ts'
import { gateway, testModel } from '../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
import { Upstream, bytes, endOfBody, events, head } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { afterContent, opening, patient, sse } from './vendor.ts'

t.setTimeout(600_000)

/** Every secret that the file has of a channel. Each begins as the others do not, so that parts of it are seen. */
const canaries = {
  credential: 'Canary/Credential+0123456789==',
  header: 'Kanarie-Header-0123456789',
  token: 'Kanarek.Token.0123456789',
  cookie: 'Kanari-Cookie-0123456789',
  query: 'Address-Query-0123456789',
  path: 'Address-Path-0123456789',
  parameter: 'Kanarya-Parameter-0123456789'
}
/** Six letters of any of them are too many. The address is for the operator to see, and not for clients. */
const secretPart = /canary|kanarie|kanare|kanari|kanary/i
const part = new RegExp(`${secretPart.source}|addres|127\\.0\\.0\\.1`, 'i')
const spellings = (secret: string): string[] => [
  secret,
  secret.toLowerCase(),
  encodeURIComponent(secret),
  JSON.stringify(secret).slice(1, -1).replaceAll('/', '\\/')
]

async function open(
  t: Test,
  overrides: Overrides = {},
  channel: Overrides = {}
): Promise<{ local: LocalGateway; vendor: Upstream }> {
  const vendor = await Upstream.start(t)
  const local = await gateway(
    t,
    {
      ...patient,
      ...overrides,
      channels: {
        vendor: {
          base_url: `${vendor.url.href}/${canaries.path}?code=${canaries.query}`,
          credential: canaries.credential,
          query: { token: canaries.parameter },
          headers: {
            'x-team': canaries.header,
            'x-authorization': `Token ${canaries.token}`,
            cookie: `session=${canaries.cookie}; lang=en`
          },
          ...channel
        }
      }
    },
    { upstreams: { vendor } }
  )
  return { local, vendor }
}

const json = (status: number, body: string, type = 'application/json'): Step[] => [
  head(status, { 'content-type': type, 'content-length': String(Buffer.byteLength(body)) }),
  bytes(body)
]

t.test('in no field of an error, by no way to the client, and in no spelling', async (t) => {
  const { local, vendor } = await open(t)
  for (const [name, secret] of Object.entries(canaries)) {
    for (const spelled of spellings(secret)) {
      const quoted = `The key "${spelled}" of ${vendor.url.host} is wrong (${spelled}).`
      const error = { message: quoted, type: `${spelled}_error`, code: spelled, param: `messages.${spelled}` }
      const ways: Record<string, Step[]> = {
        'a refusal': json(400, JSON.stringify({ error })),
        'a refusal in text': json(422, quoted, 'text/plain'),
        'a refusal that is no JSON': json(404, `{"error":"${spelled}`),
        'a failure in HTML': json(500, `<b>x</b>${quoted}`, 'text/plain'),
        'too many requests': json(429, JSON.stringify({ error })),
        'a body with status 200': json(200, JSON.stringify({ error })),
        'an event with status 200': [sse, events([opening, { error }]), endOfBody()]
      }
      for (const [way, steps] of Object.entries(ways)) {
        vendor.script(...steps)
        const reply = await local.chat({ stream: way.startsWith('an event') })
        t.not(reply.status, 200, way)
        t.notMatch(reply.text, part, `${name}, ${way}: ${spelled}`)
        t.notMatch(JSON.stringify(reply.headers), part, `${name}, ${way}`)
      }
      const cut = await afterContent(local, vendor, [events([{ error, choices: [] }]), endOfBody()])
      t.notMatch(cut.text.slice(cut.text.lastIndexOf('data:')), part, `${name}, in mid-stream: ${spelled}`)
    }
  }
  await settled(t, local)
  t.notMatch(JSON.stringify(local.lines), secretPart, 'nor in the log')
  for (const path of ['/admin/v1/requests?limit=1000', '/admin/v1/config', '/admin/v1/channels']) {
    t.notMatch(JSON.stringify(await local.admin(path)), secretPart, `nor at ${path}`)
  }
})

t.test('not at the place where a text is cut, by us or by the upstream', async (t) => {
  const { local, vendor } = await open(t)
  for (const [name, secret] of Object.entries(canaries)) {
    for (const at of [1000 - secret.length - 1, 1000 - secret.length, 994, 999, 1000]) {
      vendor.script(...json(400, JSON.stringify({ error: { message: `${'.'.repeat(at)}${secret} and more` } })))
      const reply = await local.chat()
      t.notMatch(reply.text, part, `${name} at ${at}`)
      t.ok(reply.json().error.message.length <= 1000)
    }
    for (const kept of [6, 12, secret.length - 1]) {
      vendor.script(...json(400, JSON.stringify({ error: { message: `Wrong key: ${secret.slice(0, kept)}` } })))
      t.notMatch((await local.chat()).text, part, `${name}, ${kept} letters of it`)
    }
    // The body is read up to 64 KiB, and what is left of it is no JSON.
    vendor.script(...json(400, `{"error":{"message":"${'<p>'.repeat(Math.floor((65_536 - 21 - 8) / 3))}${secret}"}}`))
    t.notMatch((await local.chat()).text, part, `${name} at 64 KiB`)
  }
})

t.test('names that are no names are not passed on, and others are as they came', async (t) => {
  const { local, vendor } = await open(t)
  const shown = async (error: object): Promise<any> => {
    vendor.script(...json(400, JSON.stringify({ error })))
    return (await local.chat()).json().error
  }
  t.same(
    await shown({
      message: 'No.',
      type: 'key_not_found_in_organization',
      code: 'tool_not_found',
      param: 'tools[0].function'
    }),
    { message: 'No.', type: 'key_not_found_in_organization', param: 'tools[0].function', code: 'tool_not_found' }
  )
  t.same(await shown({ message: 'No.', type: 'x'.repeat(129), code: 'y'.repeat(5000), param: 'z'.repeat(129) }), {
    message: 'No.',
    type: 'invalid_request_error',
    code: 'upstream_rejected'
  })
  t.match(
    await shown({
      message: 'Not with sk-proj-****abcd of org-0123456789abcdef, sent as Bearer abcdefgh1234.'
    }),
    { message: 'Not with [redacted] of [redacted], sent as [redacted]' }
  )
})

/** What an upstream says of its own failure, with every secret in every field. */
const failure = (): object => {
  const { credential, header, token, cookie } = canaries
  const all = [credential, header, token, cookie].join(' ')
  return {
    type: `${token}_error`,
    code: credential,
    message: `No: ${all} <p>at</p> 127.0.0.1`,
    param: `x.${header}`,
    inner: [{ told: all }]
  }
}
const heard = (error: unknown): object => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  model: 'demo',
  status: 'failed',
  output: [],
  error,
  usage: { input_tokens: 5, output_tokens: 2, total_tokens: 7 }
})

t.test('not in a response that tells by itself that it has failed', async (t) => {
  const vendor = await Upstream.start(t)
  const local = await gateway(
    t,
    {
      ...patient,
      channels: {
        vendor: {
          endpoints: ['responses'],
          credential: canaries.credential,
          headers: {
            'x-team': canaries.header,
            'x-authorization': `Token ${canaries.token}`,
            cookie: `session=${canaries.cookie}`
          }
        }
      }
    },
    { upstreams: { vendor } }
  )
  const post = (body: object): Promise<ReceivedReply> =>
    local.ask({ path: '/v1/responses', body: { model: testModel, input: 'Hi', ...body } })
  for (const error of [failure(), canaries.credential]) {
    vendor.script(...json(200, JSON.stringify(heard(error))))
    const whole = await post({})
    t.match(whole.json(), { status: 'failed', usage: { output_tokens: 2 } })
    t.notMatch(whole.text, part, 'as a whole')

    vendor.script(...json(200, JSON.stringify(heard(error))))
    const kept = await local.ask({ path: '/v1/responses/resp_1' })
    t.match(kept.json(), { status: 'failed' })
    t.notMatch(kept.text, part, 'when it is read again')

    const delta = {
      type: 'response.output_text.delta',
      item_id: 'm',
      output_index: 0,
      content_index: 0,
      delta: 'So far',
      sequence_number: 1
    }
    vendor.script(
      sse,
      events([
        { type: 'response.created', response: { ...heard(null), status: 'in_progress' } },
        delta,
        { type: 'response.failed', response: heard(error), sequence_number: 2 }
      ]),
      endOfBody()
    )
    const streamed = await post({ stream: true })
    t.match(streamed.text, /"type":"response.failed".*"status":"failed"/s)
    t.notMatch(streamed.text, part, 'as a stream')
  }
  // As it is not kept, nothing has to look into it; it is larger than what is held anyway.
  vendor.script(
    ...json(
      200,
      JSON.stringify({
        ...heard(failure()),
        output: [{ type: 'message', id: 'msg_1', content: [{ type: 'output_text', text: 'a'.repeat(400_000) }] }]
      })
    )
  )
  const large = await post({ store: false })
  t.match(large.json(), { status: 'failed', error: { message: /^No: / } })
  t.notMatch(large.text, part, 'as a large whole')

  const plain = `{"id":"resp_2", "object":"response","status":"failed","output":[],"error":{"code":"server_error","message":"It broke."}}`
  vendor.script(...json(200, plain))
  t.equal((await post({})).text, plain, 'any other stays as it is')
  await settled(t, local)
  t.notMatch(JSON.stringify(local.lines), secretPart, 'nor in the log')
  t.notMatch(JSON.stringify(await local.admin('/admin/v1/requests')), secretPart, 'nor in the records')
})

t.test('not in what a response or an item of it tells of, nor in the names of members', async (t) => {
  const { local, vendor } = await open(t, {}, { endpoints: ['responses'] })
  const all = Object.values(canaries).join(' ')
  const item = { type: 'mcp_call', id: 'mcp_1', name: 'find', arguments: '{}', output: null }
  const places: Record<string, object> = {
    incomplete_details: { status: 'incomplete', incomplete_details: { reason: canaries.credential, told: [all] } },
    'the error of an item': { output: [{ ...item, error: `No: ${all}` }] },
    'an error that is an object': { output: [{ ...item, error: { type: 'http_error', code: 401, message: all } }] },
    'the second of two': {
      output: [
        { ...item, error: null },
        { ...item, error: { message: all } }
      ]
    },
    'a name': { error: { code: 'x', message: 'No.', [canaries.credential]: 1, inner: { [`${canaries.token}`]: {} } } }
  }
  for (const [what, told] of Object.entries(places)) {
    const response = { ...heard(null), status: 'completed', ...told }
    vendor.script(...json(200, JSON.stringify(response)))
    const whole = await local.ask({ path: '/v1/responses', body: { model: testModel, input: 'Hi' } })
    t.equal(whole.status, 200, what)
    t.notMatch(whole.text, part, `${what}, as a whole`)
    const { status = 'completed', output } = response as { status?: string; output: object[] }
    const done = { type: 'response.output_item.done', output_index: 0, item: output[0] ?? item, sequence_number: 1 }
    vendor.script(
      sse,
      events([
        { type: 'response.created', response: { ...heard(null), status: 'in_progress' } },
        done,
        { type: `response.${status}`, response, sequence_number: 2 }
      ]),
      endOfBody()
    )
    const streamed = await local.ask({ path: '/v1/responses', body: { model: testModel, input: 'Hi', stream: true } })
    t.match(streamed.text, `"type":"response.${status}"`, what)
    t.notMatch(streamed.text, part, `${what}, as a stream`)
  }
  const plain = {
    ...heard(null),
    status: 'completed',
    output: [{ ...item, error: 'The server "x" said: {"error": 5}' }]
  }
  vendor.script(...json(200, JSON.stringify(plain)))
  t.same((await local.ask({ path: '/v1/responses', body: { model: testModel, input: 'Hi' } })).json(), plain)
  await settled(t, local)
})

t.test('nobody learns whose account it is', async (t) => {
  const { local, vendor } = await open(t)
  const ids = [
    'org-AbCdEfGh0123456789abcdef',
    'proj_AbCdEfGh0123456789abcdef',
    'user-AbCdEfGh0123456789abcdef',
    'arn:aws:sts::123456789012:assumed-role/Acme/gateway',
    'arn:aws-us-gov:bedrock:us-gov-west-1:123456789012:inference-profile/acme',
    'acme-eu.openai.azure.com',
    'https://acme-eu.services.ai.azure.com/models',
    'acme.azure-api.net',
    '/subscriptions/01234567-89ab-cdef-0123-456789abcdef/resourceGroups/acme',
    'projects/acme-prod-1/locations/us-central1',
    'project acme-123456',
    'project_number:123456789012',
    'https://console.cloud.google.com/apis/x?project=acme',
    'resource project acme',
    'gateway@acme-1.iam.gserviceaccount.com',
    'account 123456789012',
    'ek_0123456789abcdef0123',
    'AKIA0123456789ABCDEF',
    'ASIA0123456789ABCDEF'
  ]
  for (const id of ids) {
    vendor.script(...json(400, JSON.stringify({ error: { message: `It says "${id}": no.`, code: id, type: 'x' } })))
    const { error } = (await local.chat()).json()
    t.notMatch(JSON.stringify(error), /acme|0123456789|AbCdEf/i, id)
    t.match(error.message, /^It says ".*\[redacted\].*": no\.$/, id)
  }
  const told =
    'This project uses a key-value store for user-facing text; see https://ai.azure.com, ASIA-NORTHEAST1 and arn: x.'
  vendor.script(...json(400, JSON.stringify({ error: { message: told } })))
  t.equal((await local.chat()).json().error.message, told, 'words stay')
})

t.test('whatever an error is full of, it is gone over in no time', (t) => {
  const address = 'https://a-a-a-a-a-a.example.com/b-b-b-b-b-b-b-b/c?code=aaaaaaaaaaaaaaaaaaaaaaaaaaaab'
  const headers = {
    'x-a': 'key-key-key-'.repeat(100),
    'x-b': 'a'.repeat(2000),
    authorization: `Bearer ${'ab'.repeat(99)}`
  }
  const channel = { credential: 'ab'.repeat(99), headers, baseUrl: new URL(address) } as unknown as Channel
  const timed = (work: () => unknown): number => {
    const { user } = process.threadCpuUsage()
    work()
    return (process.threadCpuUsage().user - user) / 1000
  }
  const units = ['key-', 'key-a', 'sk-', 'org-', 'user-a', 'proj_', '-', '*', '_', '1-', 'a', 'ab', 'a-', '<', '<a']
  units.push('Bearer ', 'arn:', 'arn:a:', 'a@', 'a.', 'projects/', 'project ', 'account ', 'subscriptions/a')
  units.push('.azure', 'a.azure.', 'azure.com.', '@a.iam.', ' ', 'İ')
  for (const unit of units) {
    const ms = timed(() => cleanText(unit.repeat(65_536 / unit.length), channel))
    t.ok(ms < 50, `${JSON.stringify(unit)}: ${ms} ms`)
    for (const member of [[unit.repeat(8192 / unit.length)], Array.from({ length: 2000 }, () => unit), { [unit]: 1 }]) {
      const error = Message.frame(JSON.stringify({ type: 'error', error: { code: member } }), 'upstream')
      const took = timed(() => withCleanErrors(error, [['error']], channel))
      t.ok(took < 50, `${JSON.stringify(unit)} in members: ${took} ms`)
    }
  }
  t.end()
})

t.test('not in an event of a session, whatever it tells of', async (t) => {
  const upstream = await socketUpstream(t)
  const local = await gateway(
    t,
    sessionsAt(upstream, {
      credential: canaries.credential,
      headers: {
        'x-team': canaries.header,
        'x-authorization': `Token ${canaries.token}`,
        cookie: `session=${canaries.cookie}`
      }
    })
  )
  const client = await openRealtime(t, local)
  const { socket } = await upstream.peer()
  const told: object[] = [
    { type: 'error', error: failure() },
    { type: 'error', error: canaries.credential },
    { type: 'error', message: canaries.credential },
    { type: 'conversation.item.input_audio_transcription.failed', item_id: 'i', content_index: 0, error: failure() },
    { type: 'conversation.item.done', item: { type: 'mcp_call', id: 'i', error: failure() } },
    { type: 'conversation.item.done', item: { type: 'mcp_call', id: 'i', error: canaries.credential } },
    {
      type: 'response.done',
      response: { id: 'resp_0', status: 'completed', output: [{ type: 'mcp_call', error: failure() }] }
    },
    {
      type: 'response.done',
      response: { id: 'resp_1', status: 'failed', status_details: { type: 'failed', error: failure() }, output: [] }
    }
  ]
  for (const [at, event] of told.entries()) {
    socket!.send(JSON.stringify(event))
    await eventually(() => client.frames.length > at)
    t.notMatch(String(client.frames[at]!.data), part, JSON.stringify(event).slice(0, 100))
  }
  t.match(client.events.at(-1), {
    type: 'response.done',
    response: { id: 'resp_1', status: 'failed', status_details: { type: 'failed', error: { message: /^No: / } } }
  })
  socket!.close(1000, `Bye, ${canaries.credential}`)
  t.notMatch((await client.closed).reason, part)
  for (const [at, frame] of [
    `{"type":"error","type":"error","error":{"message":"${canaries.credential}"}}`,
    `{"type":"error","error":{"message":"${canaries.credential}","message":"No."}}`,
    `{"type":"error","error":"${canaries.credential}`
  ].entries()) {
    const refused = await openRealtime(t, local)
    ;(await upstream.peer(at + 2)).socket!.send(frame)
    t.equal((await refused.closed).code, 1011)
    t.notMatch(String(refused.frames.map(({ data }) => String(data))), part, frame)
  }
  await settled(t, local)
  t.notMatch(JSON.stringify(local.lines), secretPart, 'nor in the log')
})

t.test('not in a task that has failed', async (t) => {
  const { local, vendor } = await open(
    t,
    { tasks: { poll: { first: '20ms', most: '50ms' } }, models: { [testModel]: { price: { second: 1 } } } },
    { endpoints: ['videos'] }
  )
  vendor.script(...json(200, '{"id":"video_1","status":"queued"}'))
  const { id } = (
    await local.ask({ path: '/v1/video/generations', body: { model: testModel, prompt: 'A boat' } })
  ).json()
  vendor.always(
    ...json(200, JSON.stringify({ id: 'video_1', status: 'failed', size: canaries.token, error: failure() }))
  )
  let text = ''
  await eventually(async () => {
    text = (await local.ask({ path: `/v1/videos/${id}` })).text
    return JSON.parse(text).status === 'failed'
  })
  t.match(JSON.parse(text).error, { code: 'task_failed', message: /^No: / })
  t.notMatch(text, part)
  t.notMatch((await local.ask({ path: `/v1/video/generations/${id}` })).text, part)
})
