// Who may come in to the operator's listener, and who may keep others out of it.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect as connectSocket } from 'node:net'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { TokenCheck } from '../../core/admin/access/token-check.ts'
import { guardFor } from '../../core/admin/guard.ts'
import { GatewayError } from '../../core/errors.ts'
import { ask, connect } from '../kit/client.ts'
import type { ReceivedReply, RequestParts } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

type Admin = (method: string, path: string, parts?: RequestParts) => Promise<ReceivedReply>

/** Requests to the admin listener of a gateway. */
function adminOf(t: Test, { adminUrl }: Pick<LocalGateway, 'adminUrl'>): Admin {
  return (method, path, parts = {}) => ask(t, adminUrl, { ...parts, method, path })
}

const refusal = (reply: ReceivedReply): Record<string, string> => ({
  status: String(reply.status),
  ...reply.json().error
})

t.test('with a token everything below /admin needs it, also to learn that something is not there', async (t) => {
  const local = await gateway(t, { admin: { token: 'an admin token' } })
  const admin = adminOf(t, local)
  for (const path of ['/admin/v1/keys', '/admin/v1/nothing', '/admin', '/admin/v1/requests?nope=1']) {
    const bare = await admin('GET', path)
    t.match(refusal(bare), { status: '401', type: 'authentication_error', code: 'missing_admin_token' }, path)
    t.match(bare.headers['www-authenticate'], /^Bearer /)
    for (const authorization of ['Bearer wrong', 'Bearer an admin token ', 'Bearer an admin tokem']) {
      const reply = await admin('GET', path, { headers: { authorization } })
      if (!authorization.endsWith(' '))
        t.match(refusal(reply), { status: '401', code: 'invalid_admin_token' }, authorization)
    }
    t.match(refusal(await admin('GET', path, { headers: { authorization: 'Basic YTpi' } })), { status: '401' })
    t.match(
      refusal(await admin('GET', path, { headers: { authorization: `Bearer ${testKey}` } })),
      { status: '401' },
      'a client key is no token'
    )
  }
  const headers = {
    authorization: 'bearer an admin token',
    host: 'gateway.example',
    origin: 'https://elsewhere.example'
  }
  t.equal((await admin('GET', '/admin/v1/keys', { headers })).status, 200, 'who has the token may come from anywhere')
  t.equal((await admin('GET', '/admin/v1/nothing', { headers })).status, 404)
})

t.test('without a token no web page and no other machine comes in', async (t) => {
  const local = await gateway(t)
  const admin = adminOf(t, local)
  const { host, port } = new URL(local.adminUrl)
  const get = (headers: Record<string, string>): Promise<ReceivedReply> => admin('GET', '/admin/v1/keys', { headers })
  for (const headers of [
    {},
    { host: 'localhost' },
    { host: `LOCALHOST:${port}` },
    { host: 'sluice.localhost:80' },
    { host: '[::1]:9090' },
    { host: '127.8.9.1' },
    { origin: `http://${host}` },
    { 'sec-fetch-site': 'same-origin' },
    { 'sec-fetch-site': 'none' }
  ]) {
    t.equal((await get(headers as Record<string, string>)).status, 200, JSON.stringify(headers))
  }
  for (const headers of [
    { host: 'attacker.example' },
    { host: `attacker.example:${port}` },
    { host: '10.0.0.1' },
    { host: '127.0.0.1.attacker.example' },
    { host: '[fe80::1]' },
    { host: 'localhost.attacker.example' },
    { host: '127.0.0.1@attacker.example' },
    { host: '' },
    ...[
      'X-Forwarded-For',
      'Forwarded',
      'Via',
      'X-Real-IP',
      'X-Forwarded-Host',
      'X-Forwarded-Proto',
      'X-Forwarded',
      'CF-Connecting-IP',
      'CF-Ray',
      'True-Client-IP',
      'X-Client-IP',
      'X-Cluster-Client-IP',
      'Fastly-Client-IP',
      'X-Azure-ClientIP',
      'X-Original-Forwarded-For',
      'X-Original-URL',
      'X-Envoy-External-Address',
      'CDN-Loop'
    ].map((name) => ({ [name]: '127.0.0.1' }))
  ]) {
    t.match(
      refusal(await get(headers as Record<string, string>)),
      { status: '403', type: 'permission_error', code: 'local_only' },
      JSON.stringify(headers)
    )
  }
  for (const headers of [
    { origin: 'https://attacker.example' },
    { origin: 'null' },
    { origin: `https://${host}` },
    { origin: 'http://127.0.0.1:1' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' }
  ]) {
    t.match(
      refusal(await get(headers as Record<string, string>)),
      { status: '403', code: 'origin_not_allowed' },
      JSON.stringify(headers)
    )
  }
  const posted = await admin('POST', '/admin/v1/keys', {
    headers: { origin: 'https://attacker.example', 'content-type': 'text/plain' },
    body: { tenant: 'acme' }
  })
  t.equal(posted.status, 403)
  t.equal((await local.admin('/admin/v1/keys')).data.length, 1, 'and nothing was made')

  const from = (remoteAddress: string) => () =>
    guardFor(true, { tokens: new TokenCheck('', { find: () => undefined, wrongToken() {} }) })({
      headers: { host: 'localhost' },
      httpVersion: '1.1',
      socket: { remoteAddress }
    } as unknown as IncomingMessage)
  for (const address of ['127.0.0.1', '127.3.4.5', '::1', '::ffff:127.0.0.1']) t.doesNotThrow(from(address), address)
  for (const address of ['10.0.0.1', '::ffff:10.0.0.1', '2001:db8::1', '', '128.0.0.1', '127.evil'])
    t.throws(from(address), GatewayError, address)
})

t.test('who proxies a request needs a token, by whatever header or version of HTTP it shows', async (t) => {
  const local = await gateway(t)
  const admin = adminOf(t, local)
  for (const name of [
    'X-Scheme',
    'X-Amz-Cf-Id',
    'X-Varnish',
    'Fly-Region',
    'X-Rewrite-Url',
    'Max-Forwards',
    'X-B3-TraceId'
  ])
    t.match(
      refusal(await admin('GET', '/admin/v1/keys', { headers: { [name]: '1' } })),
      { status: '403', code: 'local_only', message: new RegExp(name.toLowerCase()) },
      name
    )
  const own = { 'user-agent': 'curl/8', accept: '*/*', traceparent: '00-1-1-01', 'if-none-match': '"a"', cookie: 'a=b' }
  t.equal((await admin('GET', '/admin/v1/keys', { headers: own })).status, 200, 'what programs of this machine send')
  const old = await connect(t, local.adminUrl)
  old.write('GET /admin/v1/keys HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n')
  t.equal((await old.head()).start[1], '403', 'nginx speaks HTTP/1.0 to those it stands before, and says nothing else')
})

t.test('what two readers could read differently is refused: names that are given twice', async (t) => {
  const local = await gateway(t)
  const admin = adminOf(t, local)
  const { host } = new URL(local.adminUrl)
  for (const lines of [`Host: ${host}\r\nHost: attacker.example`, `Host: ${host}\r\nhost: ${host}`]) {
    for (const path of ['/admin/v1/keys', '/metrics', '/healthz']) {
      const client = await connect(t, local.adminUrl)
      client.write(`GET ${path} HTTP/1.1\r\n${lines}\r\n\r\n`)
      t.equal((await client.head()).start[1], '400', `${path}: ${lines}`)
    }
  }
  for (const [body, name] of [
    ['{"tenant":"acme","tenant":"other"}', 'tenant'],
    ['{"tenant":"acme","budget":{"usd":1,"per":"day","usd":100}}', 'usd'],
    ['{"tenant":"acme","t\\u0065nant":"other"}', 'tenant'],
    ['{"tenant":"acme","models":[{"a":1,"a":2}]}', 'a']
  ] as const) {
    const reply = await admin('POST', '/admin/v1/keys', { headers: { 'content-type': 'application/json' }, body })
    t.match(refusal(reply), { status: '400', code: 'invalid_json', message: new RegExp(`"${name}" .* twice`) }, body)
  }
  t.equal((await local.admin('/admin/v1/keys')).data.length, 1, 'and nothing was made')
  const fine = await admin('POST', '/admin/v1/keys', { body: '{"name":"a: \\"b\\": {","tenant":"acme"}' })
  t.not(refusal(fine)['code'], 'invalid_json', 'what is in a text is no member')
})

t.test('metrics of a loopback listener are not for pages of other names', async (t) => {
  const local = await gateway(t, { admin: { token: 'an admin token' } })
  const admin = adminOf(t, local)
  const get = (path: string, headers: Record<string, string>): Promise<ReceivedReply> => admin('GET', path, { headers })
  t.equal((await get('/metrics', {})).status, 200)
  t.equal((await get('/metrics', { host: 'localhost' })).status, 200)
  t.match(refusal(await get('/metrics', { host: 'attacker.example' })), { status: '403', code: 'local_only' })
  t.equal((await get('/metrics', { host: 'gw.example', authorization: 'Bearer an admin token' })).status, 200)
  t.match(refusal(await get('/metrics', { host: 'gw.example', authorization: 'Bearer wrong' })), { status: '401' })
  t.equal((await get('/healthz', { host: 'attacker.example' })).status, 200, 'health is for everybody')
  const open = adminOf(t, await gateway(t))
  t.match(refusal(await open('GET', '/metrics', { headers: { host: 'attacker.example' } })), { code: 'local_only' })
})

t.test('a rush of wrong tokens is slowed down and logged, and the right one comes in', async (t) => {
  const local = await gateway(t, { admin: { token: 'an admin token' } })
  const admin = adminOf(t, local)
  const take = (token: string): Promise<ReceivedReply> =>
    admin('GET', '/admin/v1/keys', { headers: { authorization: `Bearer ${token}` } })
  const began = performance.now()
  for (let i = 0; i < 6; i++) t.match(refusal(await take(`guess ${i}`)), { status: '401' })
  const first = performance.now() - began
  t.ok(first > 500, `six guesses took ${Math.round(first)} ms`)
  const rush = await Promise.all(Array.from({ length: 40 }, (_, i) => take(`more ${i}`)))
  const statuses = new Set(rush.map(({ status }) => status))
  t.strictSame([...statuses].sort(), [401, 429], 'some wait, and of many the rest is sent away')
  t.match(rush.find(({ status }) => status === 429)!.headers, { 'retry-after': /^\d+$/ })
  t.ok(rush.filter(({ status }) => status === 401).length <= 8, 'few are looked at at one time')
  t.equal((await take('an admin token')).status, 200)
  const lines = local.lines.filter(({ message }) => message.includes('wrong admin token'))
  t.match(lines[0], { level: 'warn', fields: { address: '127.0.0.1', path: '/admin/v1/keys', wrong: 1 } })
  t.ok(lines.length > 1 && lines.length < 10, `${lines.length} lines`)
  t.notMatch(JSON.stringify(local.lines), /guess|more \d/)
})

t.test('connections that say nothing keep nobody out: those that were silent longest are closed', async (t) => {
  const local = await gateway(t, { admin: { token: 'an admin token' } })
  const { hostname, port } = new URL(local.adminUrl)
  const open = async (): Promise<Socket> => {
    const socket = connectSocket(Number(port), hostname)
    socket.on('error', () => {})
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    return socket
  }
  const silent: Socket[] = []
  for (let i = 0; i < 300; i++) silent.push(await open())
  await eventually(() => silent.slice(0, 10).every(({ closed }) => closed))
  for (const path of ['/healthz', '/readyz', '/metrics']) t.equal((await ask(t, local.adminUrl, { path })).status, 200)
  t.ok(silent.filter(({ closed }) => closed).length < 60, 'no more than have to go')
  // One that is heard in the meantime stays.
  const busy = await open()
  for (let i = 0; i < 300; i += 50) {
    busy.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await once(busy, 'data')
    for (let more = 0; more < 50; more++) await open()
    await sleep(1)
  }
  t.notOk(busy.closed)
})
