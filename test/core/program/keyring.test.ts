// Who a key is and what it may do: keys of the file and of the store, in three layers.
import fc from 'fast-check'
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../../config/load.ts'
import { compileGlobs } from '../../../core/catalogue/globs.ts'
import { openKeyring } from '../../../core/program/keyring.ts'
import { MemorySecrets } from '../../../core/store/memory-secrets.ts'
import { plugins } from '../../config/plugins.ts'
import type { Caller } from '../../../core/catalogue/caller.ts'
import type { Catalogue } from '../../../core/catalogue/catalogue.ts'
import type { Config } from '../../../core/catalogue/settings.ts'
import type { KeyStore, StoredKey } from '../../../core/store/keys.ts'

const folder = t.testdir()
const digest = (secret: string): Buffer => createHash('sha256').update(secret).digest()

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

/** A key store in memory, with the promises of the interface. */
class MemoryKeys implements KeyStore {
  readonly #keys = new Map<string, StoredKey>()

  all(): readonly StoredKey[] {
    return [...this.#keys.values()]
  }

  find(sha256: Buffer): StoredKey | undefined {
    return this.all().find((key) => key.sha256.equals(sha256))
  }

  async create(key: StoredKey): Promise<void> {
    this.#keys.set(key.name, key)
  }

  async revoke(name: string): Promise<boolean> {
    const key = this.#keys.get(name)
    if (!key || key.revoked !== undefined) return false
    this.#keys.set(name, { ...key, revoked: Date.now() })
    return true
  }
}

function stored(name: string, parts: Partial<StoredKey> = {}): StoredKey {
  return {
    name,
    sha256: digest(`sk-${name}`),
    hint: 'sk-…',
    tenant: 'acme',
    models: ['*'],
    endpoints: ['*'],
    limits: {},
    created: 0,
    ...parts
  }
}

function open(store: KeyStore = new MemoryKeys()): Catalogue {
  const { catalogue, problems } = openKeyring(configure(), store, new MemorySecrets())
  if (!catalogue) throw new Error(problems.map(({ message }) => message).join('\n'))
  return catalogue
}

function usable(caller: Caller | undefined): string[] {
  return ['gpt-5', 'gpt-5-mini', 'claude', 'o3'].filter((model) => caller?.mayUse(model))
}

t.test('a model may be used when tenant, member and key all allow it', (t) => {
  const { findKey } = open()
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
  const { findKey } = open()
  const alice = findKey(digest('sk-alice'))!
  t.match(alice, {
    key: 'alice',
    tenant: 'acme',
    project: 'web',
    member: 'alice',
    limits: { rps: 3 },
    expires: Date.UTC(2027, 0, 1)
  })
  t.same(alice.scopes, [
    { kind: 'tenant', id: 'tenant:acme', budget: { limit: 1_000_000_000_000n, per: 'month' } },
    { kind: 'project', id: 'project:acme/web', budget: undefined },
    { kind: 'member', id: 'member:acme/web/alice', budget: { limit: 20_000_000_000n, per: 'day' } },
    { kind: 'key', id: 'key:alice', budget: { limit: 1_000_000_000n, per: 'total' } }
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
  const { findKey } = open()
  t.equal(findKey(digest('sk-wide')), findKey(digest('sk-wide')))
  t.equal(findKey(digest('sk-nobody')), undefined)
  t.equal(findKey(Buffer.alloc(0)), undefined)
  t.equal(findKey(digest('sk-wide').subarray(0, 31)), undefined)
  t.end()
})

t.test('whoever has a secret is one caller, until the key that made it is another', async (t) => {
  const secrets = new MemorySecrets()
  const [sha256, issuer] = [digest('ek_one'), digest('sk-made')]
  const store = new MemoryKeys()
  await store.create(stored('made', { models: ['claude', 'gpt-5'], endpoints: ['realtime', 'chat'], expires: 50_000 }))
  secrets.put({ sha256, issuer, model: 'claude', expires: Date.now() + 60_000 })
  const { catalogue } = openKeyring(configure(), store, secrets)
  const first = catalogue!.findKey(sha256)!
  t.equal(catalogue!.findKey(sha256), first)
  t.same(usable(first), ['claude'], 'one model of those that its key may use')
  t.same(['chat', 'realtime'].filter(first.mayCall), ['realtime'], 'and one endpoint')
  t.equal(first.expires, 50_000, 'no longer than its key')
  await store.revoke('made')
  t.equal(catalogue!.findKey(sha256), undefined)
})

t.test('keys of the store count from the moment they are there until they are revoked', async (t) => {
  const store = new MemoryKeys()
  const { findKey } = open(store)
  t.equal(findKey(digest('sk-made')), undefined)
  await store.create(
    stored('made', { project: 'web', member: 'alice', models: ['claude'], budget: { limit: 5n, per: 'day' } })
  )
  const made = findKey(digest('sk-made'))
  t.match(made, { key: 'made', tenant: 'acme', project: 'web', member: 'alice' })
  t.same(usable(made), ['claude'])
  t.same(made!.scopes.at(-1), { kind: 'key', id: 'key:made', budget: { limit: 5n, per: 'day' } })
  // Who presents a key may remember its digest.
  const remembered = digest('sk-made')
  t.equal(findKey(remembered), made)
  await store.revoke('made')
  t.equal(findKey(remembered), undefined)
})

t.test('a stored key is not found when what it belongs to has left the file', async (t) => {
  const store = new MemoryKeys()
  await store.create(stored('of-tenant', { tenant: 'gone' }))
  await store.create(stored('of-project', { project: 'gone' }))
  await store.create(stored('of-member', { project: 'web', member: 'gone' }))
  await store.create(stored('of-no-project', { member: 'alice' }))
  await store.create(stored('constructor', { tenant: 'constructor' }))
  await store.create(stored('whole', { project: 'web', member: 'alice' }))
  const { findKey } = open(store)
  const found = store
    .all()
    .filter(({ sha256 }) => findKey(sha256))
    .map(({ name }) => name)
  t.same(found, ['whole'])
})

t.test('a name in the file and in the store is refused with its place, revoked or not', async (t) => {
  const store = new MemoryKeys()
  await store.create(stored('alice'))
  await store.create(stored('bob', { revoked: 1 }))
  await store.create(stored('other'))
  t.same(openKeyring(configure(), store, new MemorySecrets()).problems, [
    {
      place: `${join(folder, 'gateway.yaml')}:14:5`,
      message: 'a key named alice is in the store too, maybe revoked: choose another name'
    },
    {
      place: `${join(folder, 'gateway.yaml')}:16:5`,
      message: 'a key named bob is in the store too, maybe revoked: choose another name'
    }
  ])
})

t.test('one name in both is enough', async (t) => {
  const store = new MemoryKeys()
  await store.create(stored('blue'))
  const { catalogue, problems } = openKeyring(configure(), store, new MemorySecrets())
  t.equal(catalogue, undefined)
  t.match(problems, [{ message: /a key named blue is in the store too/ }])
})

t.test('a store that finds the wrong key opens nothing', async (t) => {
  class Wrong extends MemoryKeys {
    override find(): StoredKey | undefined {
      return this.all()[0]
    }
  }
  const store = new Wrong()
  await store.create(stored('made'))
  const { findKey } = open(store)
  t.equal(findKey(digest('sk-made'))?.key, 'made')
  t.equal(findKey(digest('sk-other')), undefined)
  t.equal(findKey(digest('sk-made').subarray(0, 31)), undefined)
})

t.test('thousands of keys with the same lists share them', async (t) => {
  const store = new MemoryKeys()
  await store.create(stored('one', { endpoints: ['chat', 'm*'] }))
  await store.create(stored('two', { endpoints: ['chat', 'm*'] }))
  await store.create(stored('three', { endpoints: ['chat'] }))
  const { findKey } = open(store)
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
  const before = process.cpuUsage()
  t.equal(compileGlobs([`${'*a'.repeat(50)}*b*`])('a'.repeat(1_000_000)), false)
  t.ok(process.cpuUsage(before).user < 1_000_000, 'many stars and a name of a megabyte take no noticeable time')
  t.end()
})
