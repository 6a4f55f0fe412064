// Commands with a token of the user's own: they ask the running gateway as who they are, and never open its store.
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { RemoteAdmin } from '../../core/commands/asking/remote-admin.ts'
import { ask } from '../kit/client.ts'
import { sluiceEach } from '../kit/command.ts'
import type { Ended } from '../kit/command.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'

const owner = 'the token of the owner'
const headers = { authorization: `Bearer ${owner}` }

interface Bench {
  local: LocalGateway
  /** Tokens by the names of operators. */
  tokens: Record<string, string>
  /** Runs command lines one after another. `@name` stands for the option with a file that has this one's token. */
  run(env: NodeJS.ProcessEnv, ...lines: string[]): Promise<Ended[]>
}

async function open(t: Test): Promise<Bench> {
  const local = await gateway(t, { admin: { token: owner }, tenants: { acme: {}, zeta: {} } })
  const folder = dirname(local.file)
  const tokens: Record<string, string> = { empty: '', lines: 'one\ntwo' }
  for (const operator of [
    { name: 'opal', role: 'operator' },
    { name: 'tara', role: 'tenant_admin', tenant: 'acme' },
    { name: 'vera', role: 'viewer' }
  ])
    tokens[operator.name] = (
      await ask(t, local.adminUrl, { path: '/admin/v1/operators', headers, body: operator })
    ).json().token
  for (const [name, token] of Object.entries(tokens)) writeFileSync(join(folder, name), `${token}\n`)
  // The gateway took a free port, which commands have to know. Its own token is not theirs to read.
  local.configure({ admin: { token: '${TOKEN_OF_THE_GATEWAY}', port: Number(new URL(local.adminUrl).port) } })
  const words = (line: string): string[] =>
    line.split(' ').flatMap((word) => (word.startsWith('@') ? ['--token-file', join(folder, word.slice(1))] : [word]))
  return {
    local,
    tokens,
    run: (env, ...lines) =>
      sluiceEach(
        lines.map((line) => [...words(line), ...(line.includes('--config') ? [] : ['--config', local.file])]),
        { env }
      )
  }
}

t.test('commands do what the role of a token allows, and the audit log names whose it was', async (t) => {
  const { local, tokens, run } = await open(t)
  const [made, changed, listed, shown, asked, viewed, refused, other, channels] = await run(
    { SLUICE_TOKEN: tokens['tara'] },
    'keys create --tenant acme --name ci',
    'keys change ci --rpm 5 @opal',
    'keys list --json',
    'channels list @opal',
    'explain --key ci --model demo @opal',
    'tenants list @vera',
    'keys create --tenant acme @vera',
    'keys create --tenant zeta',
    'channels list'
  )
  t.match(made, {
    code: 0,
    out: /^sk-\w{43}\n$/,
    err: new RegExp(`^ci was made for acme in the gateway at ${local.adminUrl}`)
  })
  t.match(changed, { code: 0 })
  t.same(
    JSON.parse(listed!.out).data.map(({ name }: { name: string }) => name),
    ['ci', 'test'],
    'only what is of her tenant'
  )
  t.match(shown, { code: 0, out: /^demo /m })
  t.match(asked, { code: 0, out: /sent to the channel demo/ })
  t.match(viewed, { code: 0, out: /^zeta /m })
  t.match(refused, {
    code: 1,
    out: '',
    err: 'sluice keys create: The role viewer may not do this: it takes owner, operator, tenant_admin. You are vera, with the role viewer.\n'
  })
  t.match(other, {
    code: 1,
    err: /^sluice keys create: .*You are tara, with the role tenant_admin of the tenant acme\.\n$/
  })
  t.match(channels, {
    code: 1,
    err: /^sluice channels list: .*You are tara, with the role tenant_admin of the tenant acme/
  })
  const { data } = (await ask(t, local.adminUrl, { path: '/admin/v1/audit?object=ci', headers })).json()
  t.match(data, [
    { action: 'key.change', actor: 'opal', actor_kind: 'operator', actor_role: 'operator' },
    { action: 'key.create', actor: 'tara', actor_kind: 'operator', actor_role: 'tenant_admin' }
  ])
})

t.test('an address is enough without the configuration, and what is wrong is said', async (t) => {
  const { local, tokens, run } = await open(t)
  const none = '--config none.yaml'
  const [far, gone, odd, secret, bare, missing, empty, lines] = await run(
    { SLUICE_ADMIN_URL: local.adminUrl },
    `tenants list @vera ${none}`,
    // Nobody listens there.
    `tenants list @vera --admin http://127.0.0.1:2 ${none}`,
    `tenants list @vera --admin https://user:pw@example.com/x ${none}`,
    `tenants list --token ${tokens['vera']}`,
    `tenants list ${none}`,
    'keys list @none',
    'keys list @empty',
    'keys list @lines'
  )
  t.match(far, { code: 0, out: /^acme /m })
  t.match(gone, { code: 6, err: /^sluice tenants list: No gateway answers at http:\/\/127\.0\.0\.1:2: .*ECONNREFUSED/ })
  t.match(odd, { code: 2, err: /--admin is no address of an admin listener: it must be like https/ })
  t.notMatch(odd!.err, /pw/)
  t.match(secret, { code: 2, err: /unknown option --token: known are .*--token-file/ }, 'no token on the command line')
  t.match(bare, { code: 6, err: /does not let you in with no token \(give one in SLUICE_TOKEN or --token-file\): / })
  t.match(missing, { code: 2, err: /--token-file cannot be read: ENOENT/ })
  t.match(empty, { code: 2, err: /empty is empty: it must have a token/ })
  t.match(lines, { code: 2, err: /the token in .*lines has other characters than tokens have: is it one line\?/ })
  t.notMatch(lines!.err, /one\ntwo/)
  const wrong = await run({ SLUICE_TOKEN: 'a wrong one' }, 'keys list')
  t.match(wrong, [{ code: 6, out: '', err: /let you in with the token of SLUICE_TOKEN: This is no admin token/ }])
  await local.gateway.close()
  const shut = await run({}, 'keys create --tenant acme @opal')
  t.match(shut, [{ code: 6, out: '', err: /^sluice keys create: No gateway answers at / }], 'the store stays shut')
})

t.test('a token that leaves the machine without encryption is warned of once', async (t) => {
  const said = t.capture(process.stderr, 'write')
  const warnings = async (url: string, token = 'secret'): Promise<unknown[]> => {
    const admin = new RemoteAdmin(url, token)
    for (const path of ['/admin/v1/session', '/admin/v1/keys']) await t.rejects(admin.call('GET', path))
    return said().map(({ args: [text] }) => text)
  }
  const warned = await warnings('http://gateway.invalid:9090')
  t.equal(warned.length, 1, 'of two requests')
  t.match(warned, [/^Warning: the token is sent to http:\/\/gateway\.invalid:9090 without encryption.*https/])
  t.notMatch(warned[0], /secret/)
  t.strictSame(await warnings('https://gateway.invalid'), [], 'with encryption')
  t.strictSame(await warnings('http://gateway.invalid', ''), [], 'without a token')
  for (const host of ['127.0.0.1', '[::1]', 'localhost'])
    t.strictSame(await warnings(`http://${host}:1`), [], `${host} is this machine`)
})

t.test('spend is asked of the gateway, and shows one tenant what is its own', async (t) => {
  const { local, run } = await open(t)
  const body = { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
  await ask(t, local.url, { path: '/v1/chat/completions', headers: { authorization: `Bearer ${testKey}` }, body })
  const words = ['spend --by tenant,key', 'spend --by tenant,tag --json', 'spend --by key --format csv']
  const [table, json, csv, focus, ...own] = await run(
    {},
    ...[...words, 'spend --format focus'].map((line) => `${line} @vera`),
    ...[...words, 'spend --tenant zeta'].map((line) => `${line} @tara`)
  )
  t.match(table, { code: 0, out: /^acme +test +1 +0\.000\d+ +- +- .*\nTOTAL +1 /m })
  t.match(JSON.parse(json!.out).data, [{ tenant: 'acme', tag: null, cost_nano: null, uncosted_nano: /^\d+$/ }])
  t.match(csv!.out, /^key,requests,charge_usd,charge_nano,cost_usd/)
  t.match(focus, { code: 2, err: /--format focus needs the store/ })
  t.match(own[0], { code: 0, out: /^acme +test +1 +0\.000\d+ +- +- +- +- /m })
  t.notMatch(own[1]!.out, /cost|margin/)
  t.match(own[2]!.out, /^key,requests,charge_usd,charge_nano,input/)
  t.match(own[3], { code: 1, err: /You are tara/ })
})

t.test('a name that is a step in a path names nothing else', async (t) => {
  const { local, tokens, run } = await open(t)
  const made = await ask(t, local.adminUrl, { path: '/admin/v1/tenants', headers, body: { name: 'made' } })
  t.equal(made.status, 201)
  const lines = [
    'members close ../tenants/made',
    'members change ../tenants/made --enabled no',
    'projects close ./made',
    'keys revoke ..',
    'keys revoke %2e%2e',
    'operators revoke .'
  ]
  for (const [index, ended] of (await run({ SLUICE_TOKEN: tokens['opal'] }, ...lines)).entries())
    t.match(ended, { code: 1, err: /^\S.*There is no/ }, lines[index]!)
  t.equal((await ask(t, local.adminUrl, { path: '/admin/v1/tenants/made', headers })).json().state, 'active')
})
