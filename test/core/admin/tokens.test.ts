// Tokens of operators: their form, how long they are valid, rotation, and what becomes of those that are no good.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { get } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { isWhole, newToken } from '../../../core/admin/access/tokens.ts'
import { ask, connect } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { sluice } from '../../kit/command.ts'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

const owner = 'the token of the owner'

function asker(t: Test, { adminUrl }: LocalGateway) {
  return (token: string | undefined, method: string, path: string, body?: unknown): Promise<ReceivedReply> =>
    ask(t, adminUrl, {
      method,
      path: `/admin/v1${path}`,
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      ...(body !== undefined && { body })
    })
}

const code = (reply: ReceivedReply): string => `${reply.status} ${reply.json().error?.code ?? ''}`.trim()

t.test('a token has a form that tells a mistyped one', (t) => {
  const seen = new Set<string>()
  for (let i = 0; i < 200; i++) {
    const { token, hint, sha256 } = newToken()
    seen.add(token)
    t.match(token, /^slu_adm_[0-9A-Za-z]{49}$/)
    t.match(sha256, /^[0-9a-f]{64}$/)
    t.ok(isWhole(token))
    t.ok(token.startsWith(hint.split('…')[0]!) && hint.length < 20)
    const at = 8 + (i % 49)
    const other = token[at] === 'x' ? 'y' : 'x'
    t.notOk(isWhole(token.slice(0, at) + other + token.slice(at + 1)), 'a letter that is another one')
    const swapped = token.slice(0, at - 1) + token[at]! + token[at - 1]! + token.slice(at + 1)
    if (swapped !== token) t.notOk(isWhole(swapped), 'two letters that were swapped')
    t.notOk(isWhole(token.slice(0, -1)) || isWhole(`${token}x`) || isWhole(` ${token}`))
    if (token.toLowerCase() !== token) t.notOk(isWhole(token.toLowerCase()), 'small letters')
  }
  t.equal(seen.size, 200)
  t.end()
})

t.test('what is no good is refused, and says why only to whoever has had a token', async (t) => {
  const local = await gateway(t, { admin: { token: owner } })
  const admin = asker(t, local)
  const made = await admin(owner, 'POST', '/operators', { name: 'carol', role: 'viewer' })
  const { token } = made.json()
  t.equal((await admin(token, 'GET', '/keys')).status, 200)
  t.equal((await admin(token, 'POST', '/reload')).status, 403)
  const flipped = token.replace(/[a-zA-Z](?=[^a-zA-Z]*$)/, (letter: string) =>
    letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase()
  )
  for (const wrong of [token.slice(0, -1), `${token}x`, flipped, token.toUpperCase(), 'slu_adm_', 'slu_adm_x'])
    t.match(code(await admin(wrong, 'GET', '/keys')), '401 mistyped_admin_token', wrong)
  t.match(code(await admin(newToken().token, 'GET', '/keys')), '401 invalid_admin_token', 'a token of another gateway')
  t.match(code(await admin(undefined, 'GET', '/keys')), '401 missing_admin_token')
  for (let i = 0; i < 20; i++) await admin(token.slice(0, -1), 'GET', '/keys')
  t.equal((await admin(token, 'GET', '/keys')).status, 200)
  const entries = await seen(t, local)
  t.equal(entries.filter(({ action }) => action === 'sign_in.refuse').length, 1, 'mistyped ones are not counted')
})

t.test('without a token in the file an operator is what its token says, on the same machine too', async (t) => {
  const local = await gateway(t)
  const admin = asker(t, local)
  const { token } = (await admin(undefined, 'POST', '/operators', { name: 'v', role: 'viewer' })).json()
  t.equal((await admin(token, 'GET', '/keys')).status, 200)
  t.match(code(await admin(token, 'POST', '/reload')), '403 role_not_allowed')
  t.match(code(await admin(token.slice(1), 'GET', '/keys')), '200', 'what is no token at all says nothing')
  for (const wrong of [token.toUpperCase(), token.slice(0, -1)])
    t.match(code(await admin(wrong, 'POST', '/reload')), '401 mistyped_admin_token', 'and does not make an owner of it')
  t.match(code(await admin(newToken().token, 'POST', '/reload')), '401 invalid_admin_token')
})

t.test('tokens expire, are rotated with an overlap, and a repeated rotation replaces what was lost', async (t) => {
  const local = await gateway(t, { admin: { token: owner } })
  const admin = asker(t, local)
  const made = (await admin(owner, 'POST', '/operators', { name: 'ci', role: 'operator' })).json()
  const days = (Date.parse(made.tokens[0].expires) - Date.parse(made.tokens[0].created)) / 86_400_000
  t.equal(days, 90)
  const first = made.token
  const rotate = async (body: unknown): Promise<any> =>
    (await admin(owner, 'POST', '/operators/ci/tokens', body)).json()
  const second = await rotate({ overlap: '1h', lifetime: '366d', rotation: 'spring' })
  const again = await rotate({ overlap: '1h', rotation: 'spring' })
  t.equal(again.tokens.length, 2)
  t.match(code(await admin(first, 'GET', '/keys')), '200', 'the one before is valid for the overlap')
  t.match(code(await admin(second.token, 'GET', '/keys')), '401 invalid_admin_token', 'the lost one is not')
  t.match(code(await admin(again.token, 'GET', '/keys')), '200')
  const last = await rotate({})
  t.match(code(await admin(again.token, 'GET', '/keys')), '401')
  t.match(code(await admin(first, 'GET', '/keys')), '401')
  t.match(code(await admin(last.token, 'GET', '/keys')), '200')
  await eventually(async () => {
    const { tokens } = (await admin(owner, 'GET', '/operators/ci')).json()
    return tokens[0].last_used !== null
  })
  t.match(code(await admin(owner, 'POST', '/operators/ci/tokens', { lifetime: '400d' })), '400 invalid_field')
  t.match(code(await admin(owner, 'POST', '/operators/ci/tokens', { lifetime: '0s' })), '400 invalid_field')
  const real = Date.now
  t.teardown(() => void (Date.now = real))
  Date.now = () => real() + 91 * 86_400_000
  t.match(code(await admin(last.token, 'GET', '/keys')), '401 expired_admin_token')
  t.match((await admin(owner, 'GET', '/operators/ci')).json(), { state: 'expired', tokens: [] })
  Date.now = real
  const stored = readFileSync(join(local.file, '..', 'sluice.db')).toString('latin1')
  for (const { token } of [made, second, again, last]) t.notOk(stored.includes(token), 'tokens are not in the store')
  const text = JSON.stringify(await seen(t, local)) + JSON.stringify(local.lines)
  for (const { token } of [made, second, again, last]) t.notOk(text.includes(token), 'nor in the audit log or the log')
})

t.test('who was refused is in the audit log, of many alike a few', async (t) => {
  const local = await gateway(t, { admin: { token: owner } })
  const admin = asker(t, local)
  const { token } = (await admin(owner, 'POST', '/operators', { name: 'v', role: 'viewer', tenant: 'acme' })).json()
  for (let i = 0; i < 9; i++) await admin(token, 'POST', '/reload')
  await admin(token, 'GET', '/keys/of-nobody')
  await admin('a wrong one', 'GET', '/keys')
  await admin('a wrong two', 'GET', '/keys')
  const entries = await seen(t, local)
  const refused = entries.filter(({ action }) => action === 'access.refuse')
  t.same(
    refused.filter(({ object }) => object === 'POST /admin/v1/reload').map(({ times }) => times),
    [8, 4, 2, 1]
  )
  t.match(refused.at(-1), {
    actor: 'v',
    actor_kind: 'operator',
    actor_role: 'viewer',
    address: '127.0.0.1',
    outcome: 'refused',
    tenant: 'acme',
    why: /viewer/,
    request_id: /^adm_/
  })
  t.ok(refused.some(({ why }) => String(why).includes('another tenant')))
  const wrong = entries.filter(({ action }) => action === 'sign_in.refuse')
  t.same(
    wrong.map(({ actor, times }) => [actor, times]),
    [
      ['unknown', 2],
      ['unknown', 1]
    ]
  )
  t.notMatch(JSON.stringify(entries), /a wrong (one|two)/)
})

t.test('nobody who is refused without end hides the refusals of others', async (t) => {
  // Nobody answers there, and nobody is asked: the sign-in below did not begin here.
  const oidc = { issuer: 'http://127.0.0.1:9', client_id: 'sluice', roles: { viewer: ['staff'] } }
  const local = await gateway(t, { admin: { token: owner, oidc } })
  const admin = asker(t, local)
  const tokens = new Map<string, string>()
  for (const name of ['loud', 'quiet'])
    tokens.set(name, (await admin(owner, 'POST', '/operators', { name, role: 'viewer', tenant: 'acme' })).json().token)
  const of = async (query: string): Promise<Record<string, unknown>[]> =>
    (await admin(owner, 'GET', `/audit?outcome=refused&limit=1000&${query}`)).json().data
  for (let i = 0; i < 110; i++) await admin(tokens.get('loud')!, 'GET', `/keys/of-nobody-${i}`)
  const loud = await of('actor=loud')
  t.equal(loud.length, 104, 'a hundred, and the first, second, fourth and eighth that were too many')
  t.match(loud[0], { why: /^8 more than the 100 entries of an hour; this is the last of them: the key/ })
  await admin(tokens.get('quiet')!, 'POST', '/reload')
  t.equal((await of('actor=quiet')).length, 1)
  // Only Linux has all addresses of 127.0.0.0/8.
  const addresses = process.platform === 'linux' ? 110 : 0
  await wrongTokens(local, addresses)
  t.equal((await of('action=sign_in.refuse')).length, addresses === 0 ? 0 : 104)
  t.equal((await ask(t, local.adminUrl, { path: '/admin/callback?code=x&state=x' })).status, 403)
  const [newest] = await of('action=sign_in.refuse')
  t.match(newest, { object: 'provider', why: /^This sign-in did not begin in this browser/, times: 1 })
})

/** Presents wrong tokens, each from an address of its own. */
async function wrongTokens({ adminUrl }: LocalGateway, many: number): Promise<void> {
  for (let i = 0; i < many; i++) {
    const headers = { authorization: 'Bearer a wrong one' }
    const asked = get(`${adminUrl}/admin/v1/keys`, { headers, localAddress: `127.0.1.${i + 1}`, agent: false })
    const [reply] = (await once(asked, 'response')) as [IncomingMessage]
    reply.resume()
    await once(reply, 'end')
  }
}

t.test('operators are managed by commands', async (t) => {
  const local = await gateway(t)
  await local.gateway.close()
  const config = ['--config', local.file]
  const run = (...args: string[]): ReturnType<typeof sluice> => sluice(['operators', ...args, ...config])
  const made = await run('create', 'carol', '--role', 'viewer', '--tenant', 'acme', '--lifetime', '30d')
  const listed = await run('list')
  const changed = await run('change', 'carol', '--tenant', 'none', '--enabled', 'no')
  const rotated = await run('rotate', 'carol', '--overlap', '1h')
  const revoked = await run('revoke', 'carol')
  const after = await run('list', '--json')
  const wrong = await run('create', 'dave', '--role', 'king')
  t.ok(isWhole(made.out.trim()), made.err)
  t.match(listed.out, /carol +viewer +acme +active +slu_adm_/)
  t.equal(changed.code, 0, changed.err)
  t.ok(isWhole(rotated.out.trim()), rotated.err)
  t.equal(revoked.code, 0, revoked.err)
  t.match(JSON.parse(after.out).data, [{ name: 'carol', tenant: null, enabled: false, state: 'revoked' }])
  t.match(wrong, { code: 1, err: /role/ })
})

/** The audit log, newest first, as the owner sees it. */
async function seen(t: Test, local: LocalGateway): Promise<Record<string, unknown>[]> {
  return (await asker(t, local)(owner, 'GET', '/audit?limit=1000')).json().data
}

t.test(
  'a token that is revoked, or may do less, while the body of its request comes changes nothing any more',
  async (t) => {
    const local = await gateway(t, { admin: { token: owner } })
    const admin = asker(t, local)
    for (const [name, patch, expected] of [
      ['revoked', undefined, '401 revoked_admin_token'],
      ['disabled', { enabled: false }, '401 disabled_admin_token'],
      ['lowered', { role: 'viewer' }, '403 role_not_allowed'],
      ['kept', { enabled: true }, '201']
    ] as const) {
      const { token } = (await admin(owner, 'POST', '/operators', { name, role: 'owner' })).json()
      const body = JSON.stringify({ name: `backdoor-of-${name}`, role: 'owner' })
      const client = await connect(t, local.adminUrl)
      const fields = ['host: localhost', `authorization: Bearer ${token}`, `content-length: ${body.length}`]
      client.write(`POST /admin/v1/operators HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n${body.slice(0, 5)}`)
      await eventually(
        async () => (await admin(owner, 'GET', `/operators/${name}`)).json().tokens[0].last_used !== null
      )
      await admin(owner, patch ? 'PATCH' : 'DELETE', `/operators/${name}`, patch)
      client.write(body.slice(5))
      t.equal(code(await client.reply()), expected, name)
      const made = await admin(owner, 'GET', `/operators/backdoor-of-${name}`)
      t.equal(made.status, expected === '201' ? 200 : 404, name)
    }
  }
)
