// Who a key is and what it may do: keys of the file and of the store, in three layers.
import fc from 'fast-check'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../../config/load.ts'
import { compileGlobs } from '../../../core/catalogue/globs.ts'
import { SecretBook } from '../../../core/store/embedded/book/secret-book.ts'
import { Tenancy } from '../../../core/tenancy/tenancy.ts'
import { plugins } from '../../config/plugins.ts'
import { digestOf as digest, MemoryDocuments, putKey, storedKey } from '../../kit/documents.ts'
import type { Caller, Scope } from '../../../core/catalogue/caller.ts'
import { changeOf } from '../../../core/store/documents.ts'
import { keyDocuments, levelDocuments } from '../../../core/tenancy/stored.ts'
import type { LevelKind, Path, StoredLevel } from '../../../core/tenancy/stored.ts'
import type { Config } from '../../../core/catalogue/settings.ts'
import { leastUsed } from '../../kit/turns.ts'

const folder = t.testdir()

type Settings = StoredLevel['settings']

const yaml = `
channels: { demo: { protocol: simulator, models: { gpt-5: a, gpt-5-mini: b, claude: c } } }
models: { gpt-5: { price: free }, gpt-5-mini: { price: free }, claude: { price: free } }
tenants:
  acme:
    models: ["gpt-*", "claude"]
    budget: { usd: 1000, per: month }
    projects:
      web: { members: { alice: { models: ["*-mini", "claude"], budget: { usd: 20, per: day } }, bob: } }
  blue: { models: [claude] }
keys:
  - { name: tenant-wide, key: sk-wide, tenant: acme }
  - { name: project, key: sk-project, tenant: acme, project: web, models: ["gpt-5"], endpoints: [chat, "m*"] }
  - { name: alice, key: sk-alice, tenant: acme, project: web, member: alice, models: ["gpt-*"],
      limits: { rps: 3 }, budget: { usd: 1, per: total }, expires: 2027-01-01 }
  - { name: bob, key: sk-bob, tenant: acme, project: web, member: bob }
  - { name: blue, key: sk-blue, tenant: blue }
chain: [auth]
`

function configure(): Config {
  const file = join(folder, 'gateway.yaml')
  writeFileSync(file, yaml)
  const { config, problems } = loadConfig(file, { env: {}, plugins, simulatorUrl: new URL('http://127.0.0.1:1/v1') })
  if (!config) throw new Error(problems.map(({ place, message }) => `${place} ${message}`).join('\n'))
  return config
}

function open(documents = new MemoryDocuments(), secrets = new SecretBook(new MemoryDocuments())): Tenancy {
  return new Tenancy(configure(), documents, secrets)
}

function usable(caller: Caller | undefined): string[] {
  return ['gpt-5', 'gpt-5-mini', 'claude', 'o3'].filter((model) => caller?.mayUse(model))
}

t.test('a model may be used when tenant, member and key all allow it', (t) => {
  const tenancy = open()
  const findKey = tenancy.findKey.bind(tenancy)
  t.same(usable(findKey(digest('sk-wide'))), ['gpt-5', 'gpt-5-mini', 'claude'])
  t.same(usable(findKey(digest('sk-project'))), ['gpt-5'])
  t.same(usable(findKey(digest('sk-alice'))), ['gpt-5-mini'])
  t.same(usable(findKey(digest('sk-bob'))), ['gpt-5', 'gpt-5-mini', 'claude'], 'a member without a list adds no bound')
  t.same(usable(findKey(digest('sk-blue'))), ['claude'])
  const alice = findKey(digest('sk-alice'))!
  t.same(usable(alice), usable(alice), 'the answer is the same when it is asked again')
  t.end()
})

t.test('a caller carries its scopes, outermost first, with the budgets of each level', (t) => {
  const tenancy = open()
  const findKey = tenancy.findKey.bind(tenancy)
  const alice = findKey(digest('sk-alice'))!
  t.match(alice, {
    key: 'alice',
    tenant: 'acme',
    project: 'web',
    member: 'alice',
    expires: Date.UTC(2027, 0, 1)
  })
  t.match(alice.scopes, [
    { kind: 'tenant', id: 'tenant:acme', budgets: [{ limit: 1_000_000_000_000n, per: 'month' }] },
    { kind: 'project', id: 'project:acme/web', budgets: [] },
    { kind: 'member', id: 'member:acme/web/alice', budgets: [{ limit: 20_000_000_000n, per: 'day' }] },
    { kind: 'key', id: 'key:alice', budgets: [{ limit: 1_000_000_000n, per: 'total' }] }
  ])
  t.same(
    findKey(digest('sk-blue'))!.scopes.map(({ id }) => id),
    ['tenant:blue', 'key:blue']
  )
  const project = findKey(digest('sk-project'))!
  t.same(
    ['chat', 'models', 'embeddings'].filter((endpoint) => project.mayCall(endpoint)),
    ['chat', 'models']
  )
  t.end()
})

t.test('a key is one caller object for as long as the generation lives, and an unknown one is none', (t) => {
  const tenancy = open()
  const findKey = tenancy.findKey.bind(tenancy)
  t.equal(findKey(digest('sk-wide')), findKey(digest('sk-wide')))
  t.equal(findKey(digest('sk-nobody')), undefined)
  t.equal(findKey(Buffer.alloc(0)), undefined)
  t.equal(findKey(digest('sk-wide').subarray(0, 31)), undefined)
  t.end()
})

t.test('keys of one member share what they have in common', async (t) => {
  const store = new MemoryDocuments()
  const owner = { project: 'web', member: 'alice' }
  for (const name of ['one', 'two']) await putKey(store, storedKey(name, { models: ['gpt-*'] }, owner))
  await putKey(store, storedKey('other', { models: ['claude'] }, owner))
  const tenancy = open(store)
  const [one, two, other] = ['one', 'two', 'other'].map((name) => tenancy.findPresented(`sk-${name}`) as Caller)
  t.same(usable(one), ['gpt-5-mini'])
  t.same(usable(other), ['claude'])
  t.equal(one!.mayUse, two!.mayUse, 'also what remembers their models')
  t.same(
    one!.scopes.map((scope, at) => scope === two!.scopes[at]),
    [true, true, true, false]
  )
})

t.test('whoever has a secret is one caller, until the key that made it is another', async (t) => {
  const secrets = new SecretBook(new MemoryDocuments())
  const [sha256, issuer] = [digest('ek_one'), digest('sk-made')]
  const store = new MemoryDocuments()
  const expires = new Date(Date.now() + 30_000).toISOString()
  const made = storedKey('made', { models: ['claude', 'gpt-5'], endpoints: ['realtime', 'chat'], expires })
  await putKey(store, made)
  await secrets.put({ sha256, issuer, model: 'claude', expires: Date.now() + 60_000 })
  const tenancy = open(store, secrets)
  const found = (): Caller | undefined => tenancy.findPresented('ek_one') as Caller | undefined
  const first = found()!
  t.equal(found(), first)
  t.equal(tenancy.findKey(sha256), undefined, 'it is no key')
  t.same(usable(first), ['claude'], 'one model of those that its key may use')
  t.same(['chat', 'realtime'].filter(first.mayCall), ['realtime'], 'and one endpoint')
  t.equal(first.expires, Date.parse(expires), 'no longer than its key')
  await putKey(store, { ...made, revoked: 1 })
  t.equal(found(), undefined)
})

t.test('keys of the store count from the moment they are there until they are revoked', async (t) => {
  const store = new MemoryDocuments()
  const tenancy = open(store)
  t.equal(tenancy.findKey(digest('sk-made')), undefined)
  const key = storedKey(
    'made',
    { models: ['claude'], budget: { usd: '0.000000005', per: 'day' } },
    { project: 'web', member: 'alice' }
  )
  await putKey(store, key)
  const made = tenancy.findKey(digest('sk-made'))
  t.match(made, { key: 'made', tenant: 'acme', project: 'web', member: 'alice' })
  t.same(usable(made), ['claude'])
  t.match(made!.scopes.at(-1), { kind: 'key', id: 'key:made', budgets: [{ limit: 5n, per: 'day' }] })
  const presented = (): Caller | undefined => tenancy.findPresented('sk-made') as Caller | undefined
  t.equal(presented(), made)
  t.equal(presented(), made, 'also when it is remembered')
  await putKey(store, { ...key, settings: { enabled: false } })
  t.equal(presented(), undefined, 'a disabled one is refused')
  await putKey(store, { ...key, settings: { models: ['gpt*'] } })
  t.same(usable(presented()), ['gpt-5-mini'], 'a changed one has what it was given')
  await putKey(store, { ...key, revoked: 1 })
  t.equal(presented(), undefined)
})

t.test(
  'a later configuration reads the keys of the store no more, and follows them when the one before is over',
  async (t) => {
    const store = new MemoryDocuments()
    await putKey(store, storedKey('made', { models: ['claude'] }))
    const before = open(store)
    const read = t.capture(store, 'all')
    const tenancy = open(store)
    t.notOk(read().some(({ args: [kind] }) => kind === keyDocuments))
    t.same(usable(tenancy.findKey(digest('sk-made'))), ['claude'])
    before.close()
    await putKey(store, storedKey('made', { models: ['gpt*'] }))
    await putKey(store, storedKey('other'))
    t.same(usable(tenancy.findKey(digest('sk-made'))), ['gpt-5', 'gpt-5-mini'])
    t.equal(tenancy.findKey(digest('sk-other'))?.key, 'other')
    await putKey(store, storedKey('other', {}, { revoked: 1 }))
    t.equal(tenancy.findKey(digest('sk-other')), undefined)
    t.match(tenancy.whyNoKey(digest('sk-other')), { by: 'key', where: 'key:other in the store' })
  }
)

t.test('a rotated key is found by both secrets until the older one is over', async (t) => {
  const store = new MemoryDocuments()
  const tenancy = open(store)
  const key = storedKey('made')
  const [old] = key.secrets
  const fresh = { sha256: digest('sk-new').toString('hex'), hint: 'sk-…', created: 1 }
  const soon = Date.now() + 60_000
  await putKey(store, { ...key, secrets: [fresh, { ...old!, until: soon }] })
  const find = (secret: string): Caller | undefined => tenancy.findPresented(secret) as Caller | undefined
  const callers = ['sk-new', 'sk-made'].map(find)
  t.same(['sk-new', 'sk-made'].map(find), callers)
  t.same(
    callers.map((caller) => caller?.key),
    ['made', 'made']
  )
  t.same(
    callers.map((caller) => caller?.digest),
    [digest('sk-new'), digest('sk-made')]
  )
  await putKey(store, { ...key, secrets: [fresh, { ...old!, until: Date.now() }] })
  t.same(
    ['sk-new', 'sk-made'].map((secret) => find(secret)?.key),
    ['made', undefined]
  )
  await putKey(store, { ...key, secrets: [fresh] })
  t.same(
    ['sk-new', 'sk-made'].map((secret) => find(secret)?.key),
    ['made', undefined]
  )
})

t.test('a scope is found by its id, and its budgets are later after each change', async (t) => {
  const store = new MemoryDocuments()
  const [tenancy, later] = [open(store), open(store)]
  const budget = (per: string): Settings => ({ budget: { usd: '0.000000005', per } })
  const key = storedKey('made', budget('day'), { project: 'late' })
  const change = (settings: Settings): Promise<void> =>
    store.change([changeOf(levelDocuments.project, 'acme/late', { path: ['acme', 'late'], settings, created: 0 })])
  await change(budget('day'))
  await putKey(store, key)
  const scopes = (from: Tenancy): readonly Scope[] => from.findKey(digest('sk-made'))!.scopes
  const before = scopes(tenancy)
  t.match(tenancy.scope('tenant:acme'), before[0])
  t.match(tenancy.scope('project:acme/late'), before[1])
  t.match(tenancy.scope('key:made'), { budgets: [{ limit: 5n, per: 'day' }] })
  t.match(tenancy.scope('member:acme/web/alice'), { kind: 'member', budgets: [{ per: 'day' }] })
  t.match(tenancy.scope('key:alice'), { budgets: [{ per: 'total' }] }, 'of the file')
  for (const id of ['tenant:none', 'project:acme/none', 'key:none', 'project:acme'])
    t.equal(tenancy.scope(id), undefined)

  const generation = (scope: Scope | undefined): number => scope!.generation!
  await change(budget('week'))
  const second = scopes(tenancy)
  t.ok(generation(second[1]) > generation(before[1]), 'the project has changed')
  t.match(second[1]!.budgets, [{ per: 'week' }])
  await putKey(store, { ...key, settings: budget('month') })
  const third = scopes(tenancy)
  t.ok(generation(third.at(-1)) > generation(second.at(-1)), 'the key has changed')
  t.ok(generation(tenancy.scope('key:made')) >= generation(third.at(-1)))
  for (const scope of scopes(later)) t.ok(generation(scope) > generation(third.at(-1)), 'a later configuration')
})

t.test('what belongs to nobody, or to somebody who is closed or disabled, is not found', async (t) => {
  const store = new MemoryDocuments()
  await putKey(store, storedKey('of-tenant', {}, { tenant: 'gone' }))
  await putKey(store, storedKey('of-project', {}, { project: 'gone' }))
  await putKey(store, storedKey('of-member', {}, { project: 'web', member: 'gone' }))
  await putKey(store, storedKey('of-no-project', {}, { member: 'alice' }))
  await putKey(store, storedKey('constructor', {}, { tenant: 'constructor' }))
  await putKey(store, storedKey('whole', {}, { project: 'web', member: 'alice' }))
  await putKey(store, storedKey('unclear', { budget: { usd: '1', per: 'eon' } }))
  await putKey(store, storedKey('has-what-only-tenants-have', { foreign_references: 'pass' }))
  const tenancy = open(store)
  const { watched } = store
  const later = open(store)
  const found = (): string[] =>
    store
      .all(keyDocuments)
      .flatMap(({ name, secrets }) => (tenancy.findKey(Buffer.from(secrets[0]!.sha256, 'hex')) ? [name] : []))
  t.same(found(), ['whole'])
  const level = (kind: LevelKind, path: Path, more: Partial<StoredLevel> = {}): Promise<void> =>
    store.change([changeOf(levelDocuments[kind], path.join('/'), { path, settings: {}, created: 0, ...more })])
  await level('tenant', ['gone'])
  await level('project', ['acme', 'gone'])
  await level('member', ['acme', 'web', 'gone'])
  t.same(found(), ['of-tenant', 'of-project', 'of-member', 'whole'], 'made at run time, below what the file has too')
  await level('tenant', ['gone'], { closed: 1 })
  await level('project', ['acme', 'gone'], { settings: { enabled: false } })
  t.same(found(), ['of-member', 'whole'])
  later.close()
  t.equal(store.watched, watched, 'a generation that is over follows nothing')
})

t.test('all levels together say what a key may do', async (t) => {
  const store = new MemoryDocuments()
  const path: Path = ['late', 'app', 'eve']
  const put = (kind: LevelKind, depth: number, settings: Record<string, unknown>): Promise<void> => {
    const part = path.slice(0, depth) as unknown as Path
    return store.change([changeOf(levelDocuments[kind], part.join('/'), { path: part, settings, created: 0 })])
  }
  await put('tenant', 1, { models: ['gpt-*', 'claude'], tags: { team: 'a', site: 'x' }, expires: '2999-01-01' })
  await put('project', 2, { endpoints: ['chat', 'models'], budget: { usd: 7, per: 'month' } })
  await put('member', 3, { models: ['*-mini', 'claude'], tags: { team: 'b' }, expires: '2998-01-01' })
  await putKey(
    store,
    storedKey(
      'eve',
      { endpoints: ['chat', 'embeddings'], tags: { who: 'eve' } },
      { tenant: 'late', project: 'app', member: 'eve' }
    )
  )
  const tenancy = open(store)
  const caller = tenancy.findKey(digest('sk-eve'))!
  t.same(usable(caller), ['gpt-5-mini', 'claude'])
  t.same(['chat', 'models', 'embeddings'].filter(caller.mayCall), ['chat'])
  t.same(caller.tags, { site: 'x', team: 'b', who: 'eve' })
  t.equal(caller.expires, Date.UTC(2998, 0, 1))
  t.same(
    caller.scopes.map(({ id, budgets }) => [id, budgets[0]?.limit]),
    [
      ['tenant:late', undefined],
      ['project:late/app', 7_000_000_000n],
      ['member:late/app/eve', undefined],
      ['key:eve', undefined]
    ]
  )
  t.same([...tenancy.tenants.keys()], ['acme', 'blue', 'late'])
})

t.test('a name in the file and in the store is refused with its place, revoked or not', async (t) => {
  const store = new MemoryDocuments()
  await putKey(store, storedKey('alice'))
  await putKey(store, storedKey('bob', {}, { revoked: 1 }))
  await putKey(store, storedKey('other'))
  const file = join(folder, 'gateway.yaml')
  t.same(open(store).clashes(), [
    { place: `${file}:14:5`, message: 'a key named alice is in the store too, maybe revoked: choose another name' },
    { place: `${file}:16:5`, message: 'a key named bob is in the store too, maybe revoked: choose another name' }
  ])
  const levels = new MemoryDocuments()
  await levels.change([
    changeOf(levelDocuments.tenant, 'blue', { path: ['blue'], settings: {}, created: 0, closed: 1 })
  ])
  t.same(open(levels).clashes(), [
    { place: `${file}:10:9`, message: 'a tenant blue is in the store too, maybe closed: choose another name' }
  ])
  t.same(open().clashes(), [])
})

t.test('thousands of keys with the same lists share them', async (t) => {
  const store = new MemoryDocuments()
  await putKey(store, storedKey('one', { endpoints: ['chat', 'm*'] }))
  await putKey(store, storedKey('two', { endpoints: ['chat', 'm*'] }))
  await putKey(store, storedKey('three', { endpoints: ['chat'] }))
  const tenancy = open(store)
  const findKey = tenancy.findKey.bind(tenancy)
  const [one, two, three] = ['one', 'two', 'three'].map((name) => findKey(digest(`sk-${name}`))!.mayCall)
  t.equal(one, two)
  t.not(one, three)
})

t.test('globs match like their meaning says, in time linear in the name', (t) => {
  const rows: [string[], string, boolean][] = [
    [[], 'a', false],
    [['*'], '', true],
    [['a'], 'a', true],
    [['a'], 'A', false],
    [['a*'], 'a', true],
    [['*a'], 'ba', true],
    [['a*a'], 'a', false],
    [['a*b*c'], 'a-b-c', true],
    [['a*b*c'], 'acb', false],
    [['**'], 'x', true],
    [['gpt-5.*'], 'gpt-5x', false],
    [['(a|b)'], 'a', false],
    [['[a]*'], '[a]x', true],
    [['x', 'gpt-*'], 'gpt-5', true],
    [['*ab*ab'], 'xab', false]
  ]
  for (const [globs, name, expected] of rows)
    t.equal(compileGlobs(globs)(name), expected, `"${globs}" and "${name}": ${expected}`)
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '*', '.'), maxLength: 8 })
  fc.assert(
    fc.property(letters, fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 12 }), (glob, name) => {
      const oracle = new RegExp(
        `^${glob
          .split('*')
          .map((piece) => piece.replaceAll('.', '\\.'))
          .join('.*')}$`,
        's'
      )
      return compileGlobs([glob])(name) === oracle.test(name)
    }),
    { numRuns: 1000 }
  )
  const ms = leastUsed(1000, () => t.equal(compileGlobs([`${'*a'.repeat(50)}*b*`])('a'.repeat(1_000_000)), false))
  t.ok(ms < 1000, 'many stars and a name of a megabyte take no noticeable time')
  t.end()
})
