// A configuration of several files while it runs: reloads of any of them, what the commands say, and rollbacks of all.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../../kit/client.ts'
import { sluice, sluiceEach } from '../../kit/command.ts'
import { gateway, spawnGateway } from '../../kit/gateway.ts'
import type { LocalGateway, TestGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

const rollback = (t: Test, { adminUrl }: TestGateway, body: Record<string, unknown> = {}) =>
  ask(t, adminUrl, { method: 'POST', path: '/admin/v1/config/rollback', body })
const tenantsOf = async (local: TestGateway): Promise<string> =>
  Object.keys((await local.admin('/admin/v1/config')).config.tenants).join()

/** Starts a gateway that includes the folder `tenants` and the file `extra.yaml`. */
async function started(
  t: Test,
  files: Readonly<Record<string, string>>
): Promise<LocalGateway & { at(name: string): string }> {
  const local = await gateway(t)
  const folder = dirname(local.file)
  const at = (name: string): string => join(folder, name)
  mkdirSync(at('tenants'))
  for (const [name, text] of Object.entries(files)) writeFileSync(at(name), text)
  local.configure({ include: ['tenants/', 'extra.yaml'] })
  const { ok, problems } = await local.gateway.reload('SIGHUP')
  if (!ok) throw new Error(JSON.stringify(problems))
  return { ...local, at }
}

t.test('whatever happens to an included file or folder is taken over by itself', async (t) => {
  const local = await spawnGateway(t)
  const at = (name: string): string => join(dirname(local.file), name)
  const become = (tenants: string) => eventually(async () => (await tenantsOf(local)) === tenants, 20_000)
  // The layout of a mounted ConfigMap.
  mkdirSync(at('tenants/..v1'), { recursive: true })
  writeFileSync(at('tenants/..v1/a.yaml'), 'tenants: { a: {} }\n')
  symlinkSync('..v1', at('tenants/..data'))
  symlinkSync('..data/a.yaml', at('tenants/a.yaml'))
  local.configure({ include: ['tenants'] })
  await become('acme,a')

  mkdirSync(at('tenants/..v2'))
  writeFileSync(at('tenants/..v2/a.yaml'), 'tenants: { a2: {} }\n')
  symlinkSync('..v2', at('tenants/..fresh'))
  renameSync(at('tenants/..fresh'), at('tenants/..data'))
  await become('acme,a2')

  writeFileSync(at('tenants/b.yaml'), 'tenants: { b: [')
  await eventually(async () => (await local.admin('/admin/v1/config')).last_reload.ok === false, 20_000)
  const { last_reload } = await local.admin('/admin/v1/config')
  t.match(last_reload.problems, [{ place: `${at('tenants/b.yaml')}:1:16` }])
  t.equal(await tenantsOf(local), 'acme,a2', 'a file that is half written changes nothing')
  writeFileSync(at('tenants/b.yaml'), 'tenants: { b: {} }\n')
  await become('acme,a2,b')
  writeFileSync(at('saved'), 'tenants: { b3: {} }\n')
  renameSync(at('saved'), at('tenants/b.yaml'))
  await become('acme,a2,b3')
  rmSync(at('tenants/b.yaml'))
  await become('acme,a2')
  rmSync(at('tenants'), { recursive: true })
  local.configure({ include: ['later'] })
  await eventually(async () => (await local.admin('/admin/v1/config')).last_reload.ok === false, 20_000)
  mkdirSync(at('later'))
  writeFileSync(at('later/c.yaml'), 'tenants: { c: {} }\n')
  await become('acme,c')
})

t.test('a rollback restores every file, and says what it did with each', async (t) => {
  const local = await started(t, {
    'tenants/a.yaml': 'tenants: { a: {} }\n',
    'tenants/gone.yaml': 'tenants: { gone: {} }\n',
    'tenants/same.yaml': 'tenants: { same: {} }\n',
    'extra.yaml': 'limits: { json_body: 1MiB }\n'
  })
  chmodSync(local.file, 0o600)
  const { hash, included } = await local.admin('/admin/v1/config')
  t.same(included, ['tenants/a.yaml', 'tenants/gone.yaml', 'tenants/same.yaml', 'extra.yaml'].map(local.at))
  const main = readFileSync(local.file, 'utf8')

  writeFileSync(local.at('tenants/a.yaml'), 'tenants: { a: {}, a2: {} }\n')
  rmSync(local.at('tenants/gone.yaml'))
  writeFileSync(local.at('tenants/new.yaml'), 'tenants: { new: {} }\n')
  writeFileSync(local.at('other.yaml'), 'tenants: { other: {} }\n')
  local.configure({ include: ['tenants/', 'extra.yaml', 'other.yaml'] })
  const { changes } = await local.gateway.reload('SIGHUP')
  t.same(
    changes.map(({ text }) => text).filter((text) => text.startsWith('tenant')),
    ['tenant gone is removed', 'tenant a2 is added', 'tenant new is added', 'tenant other is added']
  )
  const [present, past] = (await local.admin('/admin/v1/config/history')).data
  t.equal(past.hash, hash)
  t.match(await local.admin(`/admin/v1/config/history/${hash}`), {
    included: ['tenants/a.yaml', 'tenants/gone.yaml', 'tenants/same.yaml', 'extra.yaml']
  })

  const done = (await rollback(t, local)).json()
  t.match(done, { ok: true, to: hash, hash })
  t.same(
    done.files.map(({ file, done, aside }: any) => [file, done, aside !== null]),
    [
      [local.file, 'written', true],
      [local.at('tenants/a.yaml'), 'written', true],
      [local.at('tenants/gone.yaml'), 'made', false],
      [local.at('tenants/new.yaml'), 'taken out', true]
    ]
  )
  t.equal(readFileSync(local.file, 'utf8'), main)
  t.equal(readFileSync(local.at('tenants/a.yaml'), 'utf8'), 'tenants: { a: {} }\n')
  t.equal(readFileSync(local.at('tenants/gone.yaml'), 'utf8'), 'tenants: { gone: {} }\n')
  t.equal(statSync(local.at('tenants/gone.yaml')).mode & 0o777, 0o600, 'no more may read it than gateway.yaml')
  t.equal(readFileSync(done.files[1].aside, 'utf8'), 'tenants: { a: {}, a2: {} }\n')
  t.equal(readFileSync(done.files[3].aside, 'utf8'), 'tenants: { new: {} }\n')
  t.ok(existsSync(local.at('other.yaml')), 'what is in no included folder stays where it is')
  t.equal(
    done.changes.at(-1),
    'include changes from ["tenants/","extra.yaml","other.yaml"] to ["tenants/","extra.yaml"]'
  )
  t.equal((await local.admin('/admin/v1/config/diff')).changes.length, 0)
  t.equal(await tenantsOf(local), 'acme,a,gone,same')

  const forth = await rollback(t, local, { hash: present.hash })
  t.match(forth.json(), { ok: true, hash: present.hash }, 'and the other way round')
  t.equal(await tenantsOf(local), 'acme,a,a2,new,same,other')

  rmSync(local.file)
  rmSync(local.at('tenants'), { recursive: true })
  t.match((await rollback(t, local, { hash })).status, 409)
  t.match((await rollback(t, local, { hash, force: true })).json(), { ok: true, hash }, 'also when all is gone')
  t.equal(await tenantsOf(local), 'acme,a,gone,same')
})

t.test('a rollback that cannot be leaves every file as it was', async (t) => {
  const env: NodeJS.ProcessEnv = { ...process.env, NAMED: 'b' }
  const local = await gateway(t, {}, { env })
  const at = (name: string): string => join(dirname(local.file), name)
  mkdirSync(at('parts'))
  writeFileSync(at('parts/a.yaml'), 'tenants: { b: { models: ["${NAMED}"] } }\n')
  local.configure({ include: ['parts'] })
  t.match(await local.gateway.reload('SIGHUP'), { ok: true })
  rmSync(at('parts/a.yaml'))
  writeFileSync(at('parts/b.yaml'), 'tenants: { c: {} }\n')
  t.match(await local.gateway.reload('SIGHUP'), { ok: true })

  writeFileSync(at('parts/b.yaml'), 'tenants: { edited: {} }\n')
  t.match(await rollback(t, local), { status: 409, text: /parts\/b\.yaml is not the file in use/ })
  writeFileSync(at('parts/b.yaml'), 'tenants: { c: {} }\n')
  writeFileSync(at('parts/c.yaml'), 'tenants: { d: {} }\n')
  t.match(await rollback(t, local), { status: 409, text: /parts\/c\.yaml is not the file in use/ })
  execFileSync('mkfifo', [at('parts/d.yaml')])
  t.match(await rollback(t, local, { force: true }), { status: 409, text: /parts\/d\.yaml: is not a file/ })
  t.same(readdirSync(at('parts')).sort(), ['b.yaml', 'c.yaml', 'd.yaml'])
  rmSync(at('parts/d.yaml'))

  delete env['NAMED']
  const refused = await rollback(t, local, { force: true })
  t.match(refused, { status: 422, text: /NAMED is not set/ })
  t.match(refused.json(), { files: [], problems: [{ place: `${at('parts/a.yaml')}:1:26` }] })
  t.same(readdirSync(at('parts')).sort(), ['b.yaml', 'c.yaml'])
  t.equal(readFileSync(at('parts/b.yaml'), 'utf8'), 'tenants: { c: {} }\n')
})

t.test('a history of one text an entry, as it was written before, is read and put back', async (t) => {
  const local = await gateway(t, { tenants: { acme: {}, first: {} } })
  const folder = join(dirname(local.file), 'sluice.db.config')
  const entry = join(folder, readdirSync(folder)[0]!)
  const { included, folders, ...old } = JSON.parse(readFileSync(entry, 'utf8'))
  t.same([included, folders], [[], []])
  writeFileSync(entry, JSON.stringify(old))
  writeFileSync(join(dirname(local.file), 'more.yaml'), 'tenants: { more: {} }\n')
  local.configure({ include: ['more.yaml'] })
  t.match(await local.gateway.reload('SIGHUP'), { ok: true })
  t.match((await rollback(t, local)).json(), {
    ok: true,
    files: [{ done: 'written' }],
    changes: ['tenant more is removed', 'tenant first is added', 'include changes from ["more.yaml"] to []']
  })
  t.equal(await tenantsOf(local), 'acme,first')
})

t.test('the desks and refusals name the file that declares something', async (t) => {
  const local = await started(t, {
    'tenants/blue.yaml':
      'tenants:\n  blue: { projects: { web: {} } }\nkeys:\n- { name: k, key: sk-of-blue, tenant: blue }\n',
    'extra.yaml': 'tasks: { keep: 24h }\n'
  })
  const { adminUrl } = local
  const patch = (path: string) => ask(t, adminUrl, { method: 'PATCH', path, body: {} })
  t.match(await patch('/admin/v1/keys/k'), { status: 409, text: /tenants\/blue\.yaml:4:3/ })
  t.match(await patch('/admin/v1/tenants/blue'), { status: 409, text: /tenants\/blue\.yaml:2:9/ })
  const create = (body: object) => ask(t, adminUrl, { method: 'POST', path: '/admin/v1/tenants', body })
  t.match(await create({ name: 'blue' }), { status: 409, text: /in \S+tenants\/blue\.yaml:2:9/ })
  t.match(await create({ name: 'green' }), { status: 201 })
  writeFileSync(local.at('tenants/green.yaml'), 'tenants: { green: {} }\n')
  writeFileSync(local.at('extra.yaml'), 'tasks: { keep: 2h }\n')
  const { problems } = await local.gateway.reload('SIGHUP')
  t.match(problems, [{ place: `${local.at('extra.yaml')}:1:8`, message: /^tasks\.keep: this cannot change/ }])
  writeFileSync(local.at('extra.yaml'), 'tasks: { keep: 24h }\n')
  t.match((await local.gateway.reload('SIGHUP')).problems, [
    { place: `${local.at('tenants/green.yaml')}:1:19`, message: /green is in the store too/ }
  ])
})

t.test('the commands read a configuration of several files', async (t) => {
  const folder = t.testdir({
    'gateway.yaml': 'include: [channels.yaml, tenants]\nmodels: { demo: { price: free } }\nadmin: false\n',
    'channels.yaml':
      'channels: { demo: { protocol: simulator, models: { demo: demo } } }\nplugins: { mine: ./mine.mjs }\nchain: [auth, quota, ratelimit, route, protocol-translate, usage-meter, mine]\n',
    'mine.mjs':
      "import { definePlugin } from 'sluice/plugin'\nexport default definePlugin({ name: 'mine', summary: 'Mine.', options: {}, setup: () => ({}) })\n",
    tenants: { 'acme.yaml': 'tenants: { acme: {} }\nkeys:\n- { name: a, key: "${ALICE}", tenant: acme }\n' },
    'new.yaml': 'include: [channels.yaml]\nmodels: { demo: { price: free } }\nadmin: false\n',
    'wrong.yaml': 'include: [channels.yaml, wrong]\nmodels: { demo: { price: free } }\n',
    wrong: { 'chain.yaml': 'tenants:\n  acme: { budgte: 1 }\n' }
  })
  const env = { ALICE: 'sk-alice' }
  const [check, json, diff, wrong] = await sluiceEach(
    [['check'], ['check', '--json'], ['diff', 'gateway.yaml', 'new.yaml'], ['check', '--config', 'wrong.yaml']],
    { cwd: folder, env }
  )
  t.match(check, {
    code: 0,
    out: /^gateway\.yaml and 2 included files are right: 1 channel, 1 model, 1 tenant, 1 key; SHA-256 [0-9a-f]{64}\n/
  })
  t.match(JSON.parse(json!.out), { ok: true, included: ['channels.yaml', 'tenants/acme.yaml'] })
  t.match(diff, { code: 0, out: /^tenant acme is removed\nkey a is removed\n/m })
  t.equal(wrong!.out, 'wrong/chain.yaml:2:11 tenants.acme.budgte: unknown key, did you mean "budget"?\n')
  t.match(await sluice(['check', '--online'], { cwd: folder, env }), { code: 0, out: /demo/ })
})
