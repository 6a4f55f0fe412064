// The files of the configuration by the admin API: shown without secrets, checked as texts, and written by owners where
// the file allows it, whole or not at all.
import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway, spawnGateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { chance } from '../../kit/chance.ts'
import { eventually } from '../../kit/probe.ts'
import { sluice } from '../../kit/command.ts'

t.setTimeout(600_000)

const owner = 'the token of the owner'
const env: NodeJS.ProcessEnv = { ...process.env, OWNER: owner, KEY: testKey, HIDDEN: 'a value of the environment' }

/** A file with comments, and nothing secret in it unless `more` has it. */
const text = (more = '', write = true): string => `# The file of this test.
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0, token: "\${OWNER}", write_config: ${write} }
store: { sqlite: ./store.db, durability: process }
channels:
  demo: { protocol: simulator, models: { demo: demo } }   # the simulator
models:
  demo: { price: { input: 1, output: 2 } }
tenants: { acme: {} }
keys:
  - { name: test, key: "\${KEY}", tenant: acme }
chain: [auth, quota, ratelimit, route, protocol-translate, usage-meter]
${more}`

type Call = (method: string, path: string, body?: unknown) => Promise<ReceivedReply>

const caller =
  (t: Test, adminUrl: string, token = owner): Call =>
  (method, path, body) =>
    ask(t, adminUrl, {
      method,
      path: `/admin/v1${path}`,
      headers: { authorization: `Bearer ${token}` },
      ...(body !== undefined && { body })
    })

async function open(t: Test, whole = text()): Promise<{ local: LocalGateway; root: Call }> {
  const local = await gateway(t, whole, { env })
  return { local, root: caller(t, local.adminUrl) }
}

const file = (whole: string): { name: string; text: string }[] => [{ name: 'gateway.yaml', text: whole }]
const code = (reply: ReceivedReply): string => `${reply.status} ${reply.json().error?.code ?? ''}`.trim()

t.test('a text is read, checked, written, taken over and told of', async (t) => {
  const { local, root } = await open(t)
  const read = (await root('GET', '/config/file')).json()
  t.match(read, { writable: true, why: null, problems: [], files: [{ name: 'gateway.yaml', masked: 0 }] })
  t.equal(read.files[0].text, text())
  t.equal(read.hash, read.in_use)
  const next = text().replace('output: 2', 'output: 3')
  const checked = (await root('POST', '/config/check', { files: file(next) })).json()
  t.match(checked, { ok: true, problems: [], changes: ['model demo: price.output changes from 2 to 3'] })
  t.equal(readFileSync(local.file, 'utf8'), text(), 'a check writes nothing')
  const saved = await root('PUT', '/config/file', { hash: read.hash, files: file(next) })
  t.match(saved.json(), {
    ok: true,
    reason: 'written',
    changes: checked.changes,
    files: [{ done: 'written', aside: null }]
  })
  t.equal(readFileSync(local.file, 'utf8'), next)
  t.equal(saved.json().hash, checked.hash)
  t.same(
    readdirSync(dirname(local.file)).filter((name) => name.startsWith('gateway')),
    ['gateway.yaml']
  )
  t.match((await root('GET', '/config/history')).json().data, [
    { reason: 'written', by: 'admin.token', changes: checked.changes },
    { reason: 'start' }
  ])
  t.match((await root('GET', '/audit?action=config.write')).json().data, [
    { outcome: 'done', before: { hash: read.hash }, after: { files: ['gateway.yaml'], changes: checked.changes } }
  ])
  const back = await root('POST', '/config/rollback', {})
  t.match(back.json(), { ok: true, to: read.hash })
  t.equal(readFileSync(local.file, 'utf8'), text(), 'and it can be rolled back')
})

t.test('what somebody has changed meanwhile is not overwritten', async (t) => {
  const { local, root } = await open(t)
  const { hash } = (await root('GET', '/config/file')).json()
  const edited = text('# by hand\n')
  writeFileSync(local.file, edited)
  const refused = await root('PUT', '/config/file', { hash, files: file(text('# from here\n')) })
  t.equal(code(refused), '409 config_changed')
  t.equal(readFileSync(local.file, 'utf8'), edited)
  const now = (await root('GET', '/config/file')).json()
  t.not(now.hash, hash)
  const kept = await root('PUT', '/config/file', { hash: now.hash, files: file(text('# from here\n')) })
  t.equal(kept.status, 200, kept.text)
})

t.test('a text with problems is not written, and all of them have places', async (t) => {
  const { local, root } = await open(t)
  const { hash } = (await root('GET', '/config/file')).json()
  const wrong = text('colour: red\n').replace('tenant: acme }', 'tenant: acne }')
  const { problems, ok } = (await root('POST', '/config/check', { files: file(wrong) })).json()
  t.equal(ok, false)
  t.match(problems, [
    { place: /gateway\.yaml:11:\d+$/, message: /did you mean "acme"/ },
    { place: /gateway\.yaml:13:1$/, message: /colour/ }
  ])
  const refused = await root('PUT', '/config/file', { hash, files: file(wrong) })
  t.equal(code(refused), '422 config_problems')
  t.same(refused.json().problems, problems)
  const fixed = text().replace('durability: process', 'durability: power')
  t.match((await root('POST', '/config/check', { files: file(fixed) })).json().problems, [{ message: /restart/ }])
  t.equal((await root('PUT', '/config/file', { hash, files: file(fixed) })).status, 422)
  const syntax = (await root('POST', '/config/check', { files: file('a: [') })).json()
  t.match(syntax, { ok: false, hash: null, changes: [] })
  t.equal(readFileSync(local.file, 'utf8'), text())
})

t.test('secrets in clear are masked wherever they stand, and such a file is not written back', async (t) => {
  const secrets = [
    'sk-live-in-clear-0123456789',
    'sk-default-9876543210',
    'pass-word-1',
    'old-secret-0123456789',
    'anchored-secret-55',
    'block-secret'
  ]
  const more = `x-old: { credential: anchored-secret-55 }
x-multi:
  token: |
    in a block-secret
  other: plain
# credential: old-secret-0123456789
# the key is sk-live-in-clear-0123456789
`
  const whole = text(more)
    .replace(
      '- { name: test',
      `- { name: a, key: sk-live-in-clear-0123456789, tenant: acme }\n  - { name: b, key: "\${B:-sk-default-9876543210}", tenant: acme }\n  - { name: test`
    )
    .replace(
      '  demo: { protocol',
      '  web: { protocol: openai, base_url: "https://example.com/v1?code=pass-word-1", credential: "${HIDDEN}", models: { demo: x } }\n  demo: { protocol'
    )
  const { local, root } = await open(t, whole)
  const read = (await root('GET', '/config/file')).json()
  const [{ text: shown, masked }] = read.files
  for (const secret of [...secrets, env['HIDDEN']!, owner, testKey]) t.notMatch(shown, secret, secret)
  t.match(shown, /credential: "\$\{HIDDEN\}"/)
  t.match(shown, /key: "\$\{B:-\[redacted\]\}"/)
  t.match(shown, /# the simulator/)
  t.ok(masked >= 6, `${masked} are masked`)
  t.match(read, { writable: false, why: /gateway\.yaml/ })
  const refused = await root('PUT', '/config/file', { hash: read.hash, files: file(shown) })
  t.equal(code(refused), '409 config_masked')
  const clean = await root('PUT', '/config/file', { hash: read.hash, files: file(text()) })
  t.equal(code(clean), '409 config_masked', 'what was not seen is not written over')
  t.match(readFileSync(local.file, 'utf8'), /sk-live-in-clear/)
})

t.test('a mask is not written as if it were a secret, and a faulty file on disk is not shown', async (t) => {
  const { local, root } = await open(t)
  const { hash } = (await root('GET', '/config/file')).json()
  const masked = text().replace('"${KEY}"', '"[redacted]"')
  t.equal(code(await root('PUT', '/config/file', { hash, files: file(masked) })), '409 config_masked')
  writeFileSync(local.file, text('credental: sk-live-in-clear-0123456789\n'))
  const read = await root('GET', '/config/file')
  t.match(read.json(), { hash: null, writable: false, files: [], problems: [{ message: /credental/ }] })
  t.notMatch(read.text, /sk-live/)
})

t.test('texts run no module and read no file that the files on disk do not name', async (t) => {
  const { local, root } = await open(t)
  const folder = dirname(local.file)
  const { hash } = (await root('GET', '/config/file')).json()
  writeFileSync(
    join(folder, 'evil.mjs'),
    `import { writeFileSync } from 'node:fs'; writeFileSync(${JSON.stringify(join(folder, 'ran'))}, '')`
  )
  writeFileSync(join(folder, 'other.yaml'), 'x-secret: somebody else has this')
  for (const [more, said] of [
    ['plugins: { evil: ./evil.mjs }\n', /by hand/],
    ['include: [other.yaml]\n', /by hand/]
  ] as const) {
    const body = { files: file(text(more)) }
    const checked = await root('POST', '/config/check', body)
    t.match(checked.json(), { ok: false, problems: [{ message: said }] }, more)
    t.equal((await root('PUT', '/config/file', { hash, ...body })).status, 422)
  }
  t.notOk(existsSync(join(folder, 'ran')))
  for (const name of ['../gateway.yaml', '/etc/passwd', 'store.db', 'gateway.yaml\u0001'])
    t.equal(
      code(await root('PUT', '/config/file', { hash, files: [{ name, text: text() }] })),
      '400 config_unknown_file',
      name
    )
})

t.test('included files are written one by one, and stand together', async (t) => {
  const { local, root } = await open(t)
  const folder = dirname(local.file)
  mkdirSync(join(folder, 'tenants'))
  writeFileSync(join(folder, 'tenants/zeta.yaml'), 'tenants: { zeta: {} }\n')
  writeFileSync(local.file, text('include: [tenants/]\n'))
  t.equal((await root('POST', '/reload')).status, 200)
  const { hash, files } = (await root('GET', '/config/file')).json()
  t.match(files, [{ name: 'gateway.yaml' }, { name: 'tenants/zeta.yaml', text: 'tenants: { zeta: {} }\n' }])
  const wrong = [{ name: 'tenants/zeta.yaml', text: 'tenants: { zeta: {}, acme: {} }\n' }]
  t.match((await root('POST', '/config/check', { files: wrong })).json(), {
    problems: [{ place: /zeta\.yaml:1:/, message: /stands in .*gateway\.yaml/ }]
  })
  const next = [{ name: 'tenants/zeta.yaml', text: 'tenants: { zeta: { limits: { rpm: 5 } } }\n' }]
  t.match((await root('PUT', '/config/file', { hash, files: next })).json(), {
    ok: true,
    changes: [/zeta/],
    files: [{ file: /zeta\.yaml$/, done: 'written' }]
  })
  t.equal(readFileSync(local.file, 'utf8'), text('include: [tenants/]\n'))
})

t.test('only owners write, and only where the file says so', async (t) => {
  const { root, local } = await open(t)
  const { hash } = (await root('GET', '/config/file')).json()
  for (const [role, reads] of [
    ['operator', 200],
    ['viewer', 403]
  ] as const) {
    const { token } = (await root('POST', '/operators', { name: role, role })).json()
    const call = caller(t, local.adminUrl, token)
    const read = await call('GET', '/config/file')
    t.equal(read.status, reads)
    if (reads === 200) t.match(read.json(), { writable: false, why: /takes owner/ })
    t.equal(code(await call('PUT', '/config/file', { hash, files: file(text()) })), '403 role_not_allowed')
    t.equal((await call('GET', '/config/schema')).status, 200)
  }
  const closed = await open(t, text('', false))
  const read = (await closed.root('GET', '/config/file')).json()
  t.match(read, { writable: false, why: /write_config/ })
  const refused = await closed.root('PUT', '/config/file', { hash: read.hash, files: file(text('# more\n', false)) })
  t.equal(code(refused), '403 config_write_off')
  const allowed = await closed.root('POST', '/config/check', { files: file(text('', true)) })
  t.match(allowed.json(), { ok: false, problems: [{ message: /write_config.*restart/ }] })
  const { properties } = (await closed.root('GET', '/config/schema')).json()
  t.ok(properties.channels && properties.chain.items.else.properties.quota, 'the schema has the options of plugins')
})

t.test('a text that no file may have is refused by the check, too', async (t) => {
  const { local, root } = await open(t)
  const { hash } = (await root('GET', '/config/file')).json()
  const files = file(text(`# ${'a'.repeat(1024 * 1024)}\n`))
  t.match((await root('POST', '/config/check', { files })).json(), { ok: false, problems: [{ message: /1 MiB/ }] })
  const refused = await root('PUT', '/config/file', { hash, files })
  t.equal(code(refused), '422 config_problems')
  t.equal(readFileSync(local.file, 'utf8'), text())
})

t.test('a file keeps its owner, its group, its mode and its links, and no file of others is touched', async (t) => {
  const { local, root } = await open(t)
  const folder = dirname(local.file)
  const real = join(folder, 'real')
  mkdirSync(real)
  renameSync(local.file, join(real, 'gateway.yaml'))
  symlinkSync(join('real', 'gateway.yaml'), local.file)
  const isRoot = process.getuid?.() === 0
  if (isRoot) chownSync(local.file, 1234, 2345)
  chmodSync(local.file, 0o640)
  const drafts = ['gateway.yaml.new', 'gateway.yaml~', '.gateway.yaml.swp'].map((name) => join(real, name))
  for (const draft of drafts) writeFileSync(draft, 'of somebody else')
  const { hash } = (await root('GET', '/config/file')).json()
  const saved = await root('PUT', '/config/file', { hash, files: file(text('# more\n')) })
  t.equal(saved.status, 200, saved.text)
  t.ok(lstatSync(local.file).isSymbolicLink())
  const { mode, uid, gid } = statSync(local.file)
  t.equal(mode & 0o777, 0o640)
  if (isRoot) t.same([uid, gid], [1234, 2345])
  for (const draft of drafts) t.equal(readFileSync(draft, 'utf8'), 'of somebody else', draft)
  t.same(readdirSync(real).toSorted(), ['.gateway.yaml.swp', 'gateway.yaml', 'gateway.yaml.new', 'gateway.yaml~'])
})

t.test('nothing with secrets lies about when a file cannot be kept aside', async (t) => {
  const { local, root } = await open(t)
  const { hash } = (await root('GET', '/config/file')).json()
  // What is kept aside is called by the beginning of its hash, which is that of the configuration.
  const aside = `${local.file}.${hash.slice(0, 12)}`
  mkdirSync(aside)
  const refused = await root('PUT', '/config/file', { hash, files: file(text('# more\n')) })
  t.equal(code(refused), '409 config_not_replaced')
  t.equal(readFileSync(local.file, 'utf8'), text())
  const left = readdirSync(dirname(local.file)).filter((name) => name.startsWith('gateway.yaml'))
  t.same(left.toSorted(), ['gateway.yaml', basename(aside)].toSorted())
})

t.test('a gateway that is killed while it saves has one text or the other, and starts with it', async (t) => {
  const any = chance(Date.now())
  const texts = [text('x-which: one\n'), text('x-which: two\n')]
  let local = await spawnGateway(t, texts[0]!, { env })
  const { file: path } = local
  let saved = 0
  for (let round = 0; round < 3; round++) {
    const call = caller(t, local.adminUrl)
    // Each gateway answers one save at least, and is killed in one of those after it.
    const first = saved
    const killed = eventually(() => saved > first, 60_000)
      .then(() => sleep(any.below(300)))
      .then(() => local.process.kill('SIGKILL'))
    for (let n = 0; local.process.exitCode === null && local.process.signalCode === null; n++) {
      const reply = await (async () => {
        const { hash, files } = (await call('GET', '/config/file')).json()
        const other = texts.find((one) => one !== files[0].text)!
        return call('PUT', '/config/file', { hash, files: file(other) })
      })().catch(() => undefined)
      if (reply?.status === 200) saved++
    }
    await killed
    await local.exited
    const left = readFileSync(path, 'utf8')
    t.ok(texts.includes(left), `round ${round}: the file is whole`)
    const check = await sluice(['check', '--config', path], { env })
    t.equal(check.code, 0, check.out + check.err)
    local = await spawnGateway(t, left, { env })
  }
  t.ok(saved > 0, `${saved} saves were answered`)
  local.process.kill('SIGKILL')
})
