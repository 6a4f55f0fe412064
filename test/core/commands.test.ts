// The command as an operator meets it: processes with exit codes, standard output, standard error and signals.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startGateway } from '../../core/container.ts'
import { silentLog } from '../../core/telling/log.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import type { RequestRecord } from '../../core/store/requests.ts'
import { makeCertificate } from '../kit/certificate.ts'
import type { Certificate } from '../kit/certificate.ts'
import { ask, connect } from '../kit/client.ts'
import { sluice, sluiceEach } from '../kit/command.ts'
import type { Ended } from '../kit/command.ts'
import { gateway, spawnGateway, testKey } from '../kit/gateway.ts'
import type { Overrides } from '../kit/gateway.ts'
import { freePort } from '../kit/ports.ts'
import { eventually } from '../kit/probe.ts'
import { head, events, stall, until, Upstream } from '../kit/upstream.ts'

const root = join(import.meta.dirname, '..', '..')
const shipped = join(root, 'gateway.yaml')
const chatPath = '/v1/chat/completions'
const event = {
  id: 'c',
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: { role: 'assistant', content: 'x' }, finish_reason: null }]
}

// Some twenty processes: on a busy machine they take longer than a file is given.
t.setTimeout(600_000)

/** A configuration that starts as it is, in a folder of the test. */
function writeShipped(t: Test, changes: readonly (readonly [string | RegExp, string])[] = []): string {
  const file = join(t.testdir(), 'gateway.yaml')
  let text = readFileSync(shipped, 'utf8').replace('port: 8080', 'port: 0').replace('port: 9090', 'port: 0')
  for (const [from, to] of changes) text = text.replace(from, to)
  writeFileSync(file, text)
  return file
}

/** What the gateway has in its request log, read from its store after it has ended. */
async function recordsOf(t: Test, file: string): Promise<RequestRecord[]> {
  const store = await openStore({ file: join(dirname(file), 'sluice.db'), durability: 'process' })
  const { data } = await store.requests.list({ limit: 10 })
  t.strictSame(
    store.ledger.balances().filter(({ pending }) => pending !== 0n),
    [],
    'nothing is held'
  )
  t.equal(store.health().recovered, 0, 'and nothing had to be mended')
  await store.close()
  return data
}

t.test('help is on standard output, mistakes of the command line are on standard error with exit code 2', async (t) => {
  const cases: [string, number, RegExp, RegExp][] = [
    ['help version', 0, /sluice version .*Exit codes/s, /^$/],
    ['help', 0, /sluice keys revoke NAME .*Exit codes\n {2}0 .*\n {2}1 .*\n {2}2 .*/s, /^$/],
    ['start --help', 0, /--config FILE .*default gateway\.yaml.*SIGHUP/s, /^$/],
    ['help keys', 0, /sluice keys create \[options\].*sluice keys list.*sluice keys revoke NAME/s, /^$/],
    ['--version', 0, /^\d+\.\d+\.\d+\n$/, /^$/],
    ['', 2, /^$/, /a command is missing: known are init, start, .*, version\n/],
    ['chekc', 2, /^$/, /no command "chekc", did you mean "check"\?/],
    ['keys crate', 2, /^$/, /did you mean "keys create"\?/],
    ['check --confg x', 2, /^$/, /unknown option --confg, did you mean "--config"\?\nSee: sluice help check\n$/],
    ['check --config --json', 2, /^$/, /--config needs a value/],
    ['check --json=yes', 2, /^$/, /--json takes no value/],
    ['check gateway.yaml', 2, /^$/, /unexpected argument "gateway\.yaml"/],
    ['keys create', 2, /^$/, /--tenant is missing/],
    ['keys create --tenant acme --budget 5', 2, /^$/, /--budget is "5": it must be like 5\/day/],
    ['keys create --tenant acme --rps ten', 2, /^$/, /--rps is "ten"/]
  ]
  const results = await sluiceEach(cases.map(([line]) => (line === '' ? [] : line.split(' '))))
  for (const [index, [line, code, out, err]] of cases.entries()) {
    t.match(results[index], { code, out, err }, line)
  }
})

t.test('check says every problem with its place, or sums up what is right', async (t) => {
  const right = writeShipped(t)
  const wrong = join(dirname(right), 'wrong.yaml')
  writeFileSync(
    wrong,
    readFileSync(right, 'utf8')
      .replace('protocol: simulator', 'protocol: simulater')
      .replace('drain_timeout: 30s', 'drain_timeout: soon')
      .replace('tenant: acme', 'tenant: acmee')
      .replace('rps: 10', 'rsp: 10')
      .replace('- quota: {}', '- qouta: {}')
  )
  const lineOf = (text: string): number =>
    readFileSync(wrong, 'utf8')
      .split('\n')
      .findIndex((line) => line.includes(text)) + 1
  const file = writeConfig(dirname(right), 'unset.yaml', `x-a: "\${SURELY_UNSET}"\n${readFileSync(right, 'utf8')}`)
  const price = 'price: { input: 0.5, output: 1.5, image: 0.01, character: 10, search: 0.001, second: 0.0001 }'
  const shipped = readFileSync(right, 'utf8')
  t.ok(shipped.includes(price))
  const cheap = writeConfig(dirname(right), 'cheap.yaml', shipped.replace(price, 'price: { input: 1, output: 2 }'))
  const [plain, json, good, goodJson, unset, warned] = (await sluiceEach([
    ['check', '--config', wrong],
    ['check', '--json', '--config', wrong],
    ['check', '--config', right],
    ['check', '--config', right, '--json'],
    ['check', '--config', file],
    ['check', '--config', cheap]
  ])) as [Ended, Ended, Ended, Ended, Ended, Ended]
  t.match(warned, {
    code: 0,
    out: /^.* is right: .*\n.* warning: models\.demo\.price: .* videos counts: .* refused until it has\n.* warning: .* audio/
  })
  t.match(plain, { code: 2, err: '' })
  const lines = plain.out.trimEnd().split('\n')
  t.equal(lines.length, 5)
  for (const [at, message] of [
    ['soon', /must be a duration/],
    ['simulater', /did you mean "simulator"\?/],
    ['acmee', /did you mean "acme"\?/],
    ['rsp', /did you mean "rps"\?/],
    ['qouta', /did you mean "quota"\?/]
  ] as const) {
    const [line] = lines.filter((line) => line.startsWith(`${wrong}:${lineOf(at)}:`))
    t.match(line, message, at)
    t.match(line, /^\S+:\d+:\d+ /)
  }
  t.equal(json.code, 2)
  t.match(JSON.parse(json.out), {
    ok: false,
    file: wrong,
    problems: lines.map((line) => ({ place: line.split(' ', 1)[0] }))
  })
  t.match(good, {
    code: 0,
    err: '',
    out: /^\S+gateway\.yaml is right: 3 channels, 3 models, 1 tenant, 1 key; SHA-256 [0-9a-f]{64}\n$/
  })
  t.match(JSON.parse(goodJson.out), {
    ok: true,
    channels: 3,
    keys: 1,
    hash: good.out.trimEnd().slice(-64),
    problems: []
  })
  t.match(unset, { code: 2, out: /SURELY_UNSET/ })
  const doubtful = writeConfig(
    dirname(right),
    'doubtful.yaml',
    readFileSync(right, 'utf8').replace('["*"]', '["dmeo"]')
  )
  const [doubted, doubtedJson, strict, sound] = (await sluiceEach([
    ['check', '--config', doubtful],
    ['check', '--config', doubtful, '--json'],
    ['check', '--config', doubtful, '--strict'],
    ['check', '--config', right, '--strict']
  ])) as [Ended, Ended, Ended, Ended]
  t.match(strict, { code: 2, out: / has warnings: .*\n\S+:\d+:\d+ warning: / })
  t.match(sound, { code: 0, out: / is right: / })
  t.match(doubted, {
    code: 0,
    out: / is right: [^]*\n\S+:\d+:\d+ warning: tenants\.acme\.models\[0\]: no model is meant by "dmeo", did you mean "demo"\?\n/
  })
  const { ok, warnings } = JSON.parse(doubtedJson.out)
  t.equal(ok, true)
  t.match(warnings.find(({ message }: { message: string }) => message.includes('no model is meant')).place, /:\d+:\d+$/)
})

function writeConfig(folder: string, name: string, text: string): string {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

t.test('start names its addresses and how to try it, and SIGINT ends it', async (t) => {
  const running = await spawnGateway(t, readFileSync(writeShipped(t), 'utf8'))
  const [line] = running.output().split('\n')
  const { try: trial, ...ready } = JSON.parse(line!)
  t.match(ready, { message: 'ready', url: running.url, admin_url: running.adminUrl, admin_local: true })
  const [, address, key, body] =
    /^curl (\S+) -H 'Authorization: Bearer (\S+)' -H 'Content-Type: application\/json' -d '(.+)'$/.exec(trial)!
  t.equal(address, running.url + chatPath)
  const reply = await ask(t, running.url, { path: chatPath, headers: { authorization: `Bearer ${key}` }, body })
  t.equal(reply.status, 200)
  t.match(running.output(), /"level":"warn".*demo key/)
  running.process.kill('SIGINT')
  t.strictSame(await running.exited, { code: 0, signal: null })
})

t.test('npm start writes nothing but lines of JSON on standard output', async (t) => {
  const child = spawn('npm', ['start', '--', '--config', writeShipped(t)], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'ignore']
  })
  t.teardown(() => child.kill('SIGKILL'))
  let out = ''
  child.stdout.on('data', (text: Buffer) => (out += text.toString()))
  const closed = once(child, 'close')
  await eventually(() => out.includes('\n'), 60_000)
  const [ready] = out.split('\n')
  t.match(JSON.parse(ready!), { message: 'ready', url: /^http:/, admin_url: /^http:/ })
  const { url, try: trial } = JSON.parse(ready!)
  const body = /-d '(.+)'$/.exec(trial)![1]!
  await ask(t, url, { path: chatPath, headers: { authorization: 'Bearer sk-demo-alice-000000000000' }, body })
  await eventually(() => out.trimEnd().split('\n').length > 1, 10_000)
  child.kill('SIGTERM')
  await closed
  for (const line of out.trimEnd().split('\n')) t.doesNotThrow(() => JSON.parse(line), line)
})

t.test('SIGTERM lets a stream end, then the process ends with 0 and everything is in the store', async (t) => {
  const upstream = await Upstream.start(t)
  const go = Promise.withResolvers<void>()
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([event]),
    until(go.promise),
    events([{ ...event, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }, 'data: [DONE]\n\n']),
    ({ socket }) => void socket.destroySoon()
  )
  const running = await spawnGateway(t, { admin: { token: 'token' } }, { upstreams: { first: upstream } })
  t.match(JSON.parse(running.output().split('\n', 1)[0]!), {
    message: 'ready',
    admin_local: false,
    url: running.url
  })
  t.notMatch(running.output(), /curl/)
  const client = await running.openChat({ stream: true })
  await client.body('"x"')
  running.process.kill('SIGTERM')
  await eventually(async () => (await ask(t, running.adminUrl, { path: '/readyz' })).status === 503, 10_000)
  go.resolve()
  t.match((await client.reply()).text, /\[DONE\]/)
  t.strictSame(await running.exited, { code: 0, signal: null })
  t.match(running.output(), /"the gateway stops","reason":"SIGTERM".*\n.*"the gateway has stopped","cut":0/)
  t.match(await recordsOf(t, running.file), [{ outcome: 'completed', status: 200 }])
})

t.test('after SIGTERM the gateway serves on for limits.lame_duck, although it is not ready', async (t) => {
  const running = await spawnGateway(t, { limits: { lame_duck: '5m' } })
  const kept = await connect(t, running.url)
  running.process.kill('SIGTERM')
  await eventually(async () => (await ask(t, running.adminUrl, { path: '/readyz' })).status === 503, 10_000)
  t.equal((await ask(t, running.adminUrl, { path: '/healthz' })).status, 200)
  t.match(await running.chat(), { status: 200 }, 'a new connection')
  t.match(await kept.send({ path: '/v1/models', headers: { authorization: `Bearer ${testKey}` } }).reply(), {
    status: 200,
    headers: { connection: 'keep-alive' }
  })
  running.process.kill('SIGTERM')
  t.strictSame(await running.exited, { code: 130, signal: null }, 'a second signal does not wait')
})

t.test('limits.lame_duck ends, and so does the gateway', async (t) => {
  const running = await spawnGateway(t, { limits: { lame_duck: '50ms' } })
  running.process.kill('SIGTERM')
  t.strictSame(await running.exited, { code: 0, signal: null })
})

t.test('a second signal does not wait, and yet settles and closes the store', async (t) => {
  const upstream = await Upstream.start(t)
  upstream.script(head(200, { 'content-type': 'text/event-stream' }), events([event]), stall())
  const running = await spawnGateway(t, { limits: { drain_timeout: '5m' } }, { upstreams: { first: upstream } })
  const client = await running.openChat({ stream: true })
  await client.body('"x"')
  running.process.kill('SIGTERM')
  await eventually(() => running.output().includes('"the gateway stops"'), 10_000)
  running.process.kill('SIGINT')
  t.strictSame(await running.exited, { code: 130, signal: null })
  t.match(Buffer.concat(client.reads.map(({ bytes }) => bytes)).toString(), /"code":"draining"/, 'the client was told')
  t.match(await recordsOf(t, running.file), [
    { outcome: 'failed', error_code: 'draining', usage_source: /partial|estimated/ }
  ])
})

t.test('a fault that nothing catches is logged, and the process drains and ends with 1', async (t) => {
  const upstream = await Upstream.start(t)
  const go = Promise.withResolvers<void>()
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events([event]),
    until(go.promise),
    events(['data: [DONE]\n\n']),
    ({ socket }) => void socket.destroySoon()
  )
  const faults = `
    process.on('SIGPROF', () => { throw new Error('thrown by the test') })
    process.on('SIGWINCH', () => { void Promise.reject(new Error('rejected by the test')) })`
  const running = await spawnGateway(
    t,
    {},
    {
      upstreams: { first: upstream },
      env: { NODE_OPTIONS: `--import=data:text/javascript;base64,${Buffer.from(faults).toString('base64')}` }
    }
  )
  const client = await running.openChat({ stream: true })
  await client.body('"x"')
  running.process.kill('SIGWINCH')
  await eventually(() => running.output().includes('the gateway stops'), 10_000)
  t.match(running.output(), /"origin":"unhandledRejection","error":"Error: rejected by the test\\n +at /)
  running.process.kill('SIGPROF')
  await eventually(() => running.output().includes('thrown by the test'), 10_000)
  go.resolve()
  await client.reply()
  t.strictSame(await running.exited, { code: 1, signal: null })
  t.equal((await recordsOf(t, running.file)).length, 1)
})

t.test('SIGHUP and a saved file are taken over, and a file with problems is not', async (t) => {
  const running = await spawnGateway(t)
  const hash = async (): Promise<string> => (await running.admin('/admin/v1/config')).hash
  const first = await hash()
  running.configure({ tenants: { acme: {}, second: {} } })
  running.process.kill('SIGHUP')
  await eventually(async () => (await hash()) !== first, 10_000)
  running.configure({ tenants: { acme: {}, third: {} } })
  await eventually(async () => (await running.admin('/admin/v1/tenants')).data[1].name === 'third', 10_000)
  t.match((await running.admin('/admin/v1/config')).last_reload, { ok: true, reason: 'file changed' })
  writeFileSync(running.file, 'nonsense: 1\n')
  await eventually(async () => !(await running.admin('/admin/v1/config')).last_reload.ok, 10_000)
  await eventually(() => /not reloaded.*gateway\.yaml:1:1 .*nonsense/.test(running.output()), 10_000)
  t.equal((await running.chat()).status, 200)
})

t.test('a renewed certificate is noticed by itself, and on SIGHUP', async (t) => {
  const [own, second, third] = [makeCertificate(t), makeCertificate(t), makeCertificate(t)]
  const running = await spawnGateway(t, { listen: { tls: { cert: own.cert, key: own.key } } })
  const renew = (next: Certificate): void => {
    for (const part of ['cert', 'key'] as const) copyFileSync(next[part], own[part])
  }
  const shows = ({ ca }: Certificate): Promise<boolean> =>
    connect(t, running.url, ca).then(
      () => true,
      () => false
    )
  t.ok(await shows(own))
  renew(second)
  await eventually(() => shows(second), 10_000)
  t.match((await running.admin('/admin/v1/config')).last_reload, { ok: true, reason: 'file changed' })
  renew(third)
  running.process.kill('SIGHUP')
  await eventually(() => shows(third), 10_000)
})

t.test('what cannot be started says why in one sentence', async (t) => {
  const running = await gateway(t)
  const folder = dirname(running.file)
  const text = readFileSync(running.file, 'utf8')
  const { port } = new URL(running.url)
  const taken = text.replace('port: 0', `port: ${port}`).replace('sluice.db', 'other.db')
  const start = (file: string): Promise<Ended> => sluice(['start', '--config', file], { alone: true })
  const [broken, missing, inUse, locked] = await Promise.all([
    start(writeConfig(folder, 'broken.yaml', text.replace('tenant: acme', 'tenant: nobody'))),
    start(join(folder, 'missing.yaml')),
    start(writeConfig(folder, 'taken.yaml', taken)),
    start(running.file)
  ])
  t.match(broken, { code: 2, out: '', err: /^\S+broken\.yaml:\d+:\d+ .*no tenant "nobody".*\n$/ })
  t.match(missing, { code: 2, out: '', err: /^\S+missing\.yaml there is no such file: name one with --config\n$/ })
  t.match(inUse, {
    code: 1,
    out: '',
    err: new RegExp(`^sluice start: 127\\.0\\.0\\.1:${port} is in use by another process\\..*\\n$`)
  })
  t.match(locked, {
    code: 4,
    out: '',
    err: new RegExp(`^sluice start: \\S+sluice\\.db is in use by process ${process.pid}: .*\\n$`)
  })
})

t.test(
  'keys are made, listed and revoked in the store while no gateway runs, and through it while it does',
  async (t) => {
    const config: Overrides = {
      admin: { port: await freePort(), token: '${TOKEN:-a-token}' },
      tenants: { acme: { projects: { web: { members: { alice: {} } } } } }
    }
    const running = await gateway(t, config)
    const keys = (...args: string[]): Promise<Ended> => sluice(['keys', ...args, '--config', running.file])
    const works = async (key: string): Promise<boolean> =>
      (await ask(t, running.url, { path: '/v1/models', headers: { authorization: `Bearer ${key.trim()}` } })).status ===
      200

    const live = await keys(
      'create',
      '--tenant',
      'acme',
      '--name',
      'live',
      '--models',
      'demo,gpt-*',
      '--rpm',
      '60',
      '--budget',
      '5/day',
      '--expires',
      '2100-01-01'
    )
    t.match(live, {
      code: 0,
      out: /^sk-\w{43}\n$/,
      err: `live was made for acme in the gateway at ${running.adminUrl}. Its secret is not shown again.\n`
    })
    t.ok(await works(live.out))
    const [listed, json, unknown, readOnly, misspelt, clash] = (await sluiceEach(
      [
        ['list'],
        ['list', '--json'],
        ['revoke', 'lve'],
        ['revoke', 'test'],
        ['create', '--tenant', 'acmee'],
        ['create', '--tenant', 'acme', '--name', 'live']
      ].map((args) => ['keys', ...args, '--config', running.file])
    )) as [Ended, Ended, Ended, Ended, Ended, Ended]
    const wrongToken = await sluice(['keys', 'list', '--config', running.file], { env: { TOKEN: 'another' } })
    t.match(listed, {
      code: 0,
      err: '',
      out: /^NAME +STATE +SOURCE +OWNER +MODELS +BUDGET +EXPIRES +SECRET\nlive +active +store +acme +demo,gpt-\* +5\/day +2100-01-01 +sk-\w{4}…\w{4}\ntest +active +file +acme +\* +- +- +-\n$/
    })
    t.match(JSON.parse(json.out), {
      data: [{ name: 'live', limits: { rpm: 60 }, budget: [{ usd: '5', per: 'day' }] }, { name: 'test' }]
    })
    t.match(wrongToken, { code: 6, err: /does not let this command in: This is no admin token/ })
    t.match(unknown, { code: 1, err: /no key "lve", did you mean "live"\?/ })
    t.match(readOnly, { code: 1, err: /gateway\.yaml:\d+:\d+: change it there/ })
    t.match(misspelt, { code: 1, out: '', err: /no tenant "acmee", did you mean "acme"\?/ })
    t.match(clash, { code: 1, out: '', err: /already, in the store: choose another name/ })
    t.match(await keys('revoke', 'live'), {
      code: 0,
      out: '',
      err: `live is revoked in the gateway at ${running.adminUrl}.\n`
    })
    t.notOk(await works(live.out))
    await running.gateway.close()

    const store = join(dirname(running.file), 'sluice.db')
    const offline = await keys('create', '--tenant', 'acme', '--project', 'web', '--member', 'alice', '--json')
    const { key, name } = JSON.parse(offline.out)
    t.match(offline, {
      code: 0,
      err: `${name} was made for acme/web/alice in ${store}. Its secret is not shown again.\n`
    })
    const second = await keys('create', '--tenant', 'acme', '--name', 'second')
    t.match(await keys('revoke', 'second'), { code: 0, err: `second is revoked in ${store}.\n` })
    t.match(await keys('create', '--tenant', 'acme', '--name', 'test'), {
      code: 1,
      err: /a key test already, in \S+gateway\.yaml:\d+:\d+/
    })
    const after = await startGateway({ config: running.file, log: silentLog })
    t.teardown(() => after.close())
    const status = async (secret: string): Promise<number> =>
      (await ask(t, after.url, { path: '/v1/models', headers: { authorization: `Bearer ${secret.trim()}` } })).status
    t.strictSame([await status(key), await status(second.out), await status(testKey)], [200, 401, 200])
    const other = writeConfig(
      dirname(running.file),
      'other.yaml',
      readFileSync(running.file, 'utf8').replace(/port: [1-9]\d*/, 'port: 0')
    )
    t.match(await sluice(['keys', 'list', '--config', other]), {
      code: 1,
      err: /is in use by process \d+: .* no admin\.port at which the gateway could be asked\.\n$/
    })
  }
)

t.test('what a plugin leaves open is named and keeps no process, nor does output that nobody reads', async (t) => {
  const contract = new URL('../../core/contract/contract.ts', import.meta.url).href
  const folder = mkdtempSync(join(tmpdir(), 'sluice-plugins-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const plugin = (name: string, setup: string): void =>
    writeFileSync(
      join(folder, `${name}.ts`),
      `import { definePlugin } from ${JSON.stringify(contract)}
      const setup = () => { ${setup} }
      export default definePlugin({ name: '${name}', summary: 'Stays.', options: {}, setup })`
    )
  plugin('stubborn', `setInterval(() => {}, 1000); process.stdout.write('x'.repeat(8 << 20)); return {}`)
  plugin(
    'early',
    `setTimeout(() => { throw new Error('too early') }); return new Promise(() => setInterval(() => {}, 1e9))`
  )
  const chainOf = (name: string): Overrides =>
    ({
      plugins: { [name]: join(folder, `${name}.ts`) },
      chain: [{ auth: {} }, { [name]: {} }, { route: {} }]
    }) as Overrides
  await t.rejects(spawnGateway(t, chainOf('early')), /did not start: .*a fault that nothing caught: Error: too early/s)

  const running = await spawnGateway(t, chainOf('stubborn'))
  running.process.stdout!.pause()
  const written = running.output().length
  running.process.kill('SIGTERM')
  await eventually(() => /"the gateway has stopped"/.test(running.output().slice(written)), 20_000)
  running.process.kill('SIGTERM')
  t.strictSame(await running.exited, { code: 0, signal: null })
  t.match(running.output(), /does not end by itself and is ended, as this is still open: .*Timeout/)
})
