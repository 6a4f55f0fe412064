// Who a secret belongs to, what its caller may do, and what operators are told when it may not: random tenancies of the
// file and of the store, against an oracle that reads the declarations anew for every question.
// Runs alone: it measures the memory of its process.
import fc from 'fast-check'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../../config/load.ts'
import type { Caller, Rates, Scope } from '../../../core/catalogue/caller.ts'
import type { RuleReason } from '../../../core/errors.ts'
import { changeOf } from '../../../core/store/documents.ts'
import type { DocumentChange } from '../../../core/store/documents.ts'
import { SecretBook } from '../../../core/store/embedded/book/secret-book.ts'
import { keyDocuments, levelDocuments } from '../../../core/tenancy/stored.ts'
import type { Path } from '../../../core/tenancy/stored.ts'
import { Tenancy } from '../../../core/tenancy/tenancy.ts'
import { plugins } from '../../config/plugins.ts'
import { digestOf, MemoryDocuments } from '../../kit/documents.ts'
import { heldBytes } from '../../kit/probe.ts'

/** How many tenancies are tried. */
const runs = 80
const now = Date.UTC(2027, 5, 1)
const models = ['gpt-5', 'gpt-5-mini', 'claude']
/** Models are asked for that are not known, too. */
const asked = [...models, 'o3', '']
const endpoints = ['chat', 'models', 'realtime']

/** The settings of one level, in the form of gateway.yaml. */
interface Settings {
  enabled?: boolean
  models?: string[]
  endpoints?: string[]
  limits?: Rates & { models?: Record<string, Rates> }
  budget?: { usd: number; per: 'day' }
  expires?: string
  tags?: Record<string, string>
  /** Of tenants alone. */
  foreign_references?: 'pass' | 'refuse'
}

interface Level {
  path: string[]
  settings: Settings
  /** The store has two things that the file has not: levels that were closed, and settings that nobody understands. */
  closed?: number | undefined
  unclear?: boolean
}

interface Key extends Level {
  name: string
  /** The texts of its secrets, with the time from which each is refused. */
  secrets: [text: string, until: number | undefined][]
  revoked?: number | undefined
}

/** What is declared in one place. */
interface Declared {
  levels: Level[]
  keys: Key[]
}

const globs = (...lists: string[][]) => fc.option(fc.constantFrom(...lists), { nil: undefined })
const rates = fc.constantFrom<Rates>({}, { rps: 3 }, { rpm: 5, tpm: 7 })

const settings: fc.Arbitrary<Settings> = fc
  .record({
    enabled: fc.constantFrom(undefined, undefined, undefined, undefined, undefined, true, false),
    models: globs(['*'], ['gpt-*'], ['claude', 'gpt-5'], ['claude', 'gpt-5'], []),
    endpoints: globs(['*'], ['chat', 'm*'], ['chat', 'realtime'], ['realtime'], []),
    limits: fc.option(
      fc
        .tuple(rates, fc.option(rates, { nil: undefined }), fc.option(rates, { nil: undefined }))
        .map(([own, some, one]) => ({
          ...own,
          models: { ...(some && { 'gpt-*': some }), ...(one && { claude: one }) }
        })),
      { nil: undefined }
    ),
    budget: fc.constantFrom(undefined, { usd: 1, per: 'day' as const }, { usd: 2, per: 'day' as const }),
    expires: fc.constantFrom(
      undefined,
      '2026-01-01T00:00:00.000Z',
      '2028-01-01T00:00:00.000Z',
      '2029-01-01T00:00:00.000Z'
    ),
    tags: fc.constantFrom(undefined, { team: 'a', site: 'x' }, { team: 'b' }, { env: 'c' })
  })
  .map((whole) => JSON.parse(JSON.stringify(whole)) as Settings)

const tenantSettings = fc
  .tuple(settings, fc.constantFrom(undefined, 'pass' as const, 'refuse' as const))
  .map(([own, references]): Settings => (references ? { ...own, foreign_references: references } : own))

const paths = [['acme'], ['acme', 'web'], ['acme', 'web', 'eve'], ['blue'], ['blue', 'app']]
const owners = [...paths, ['gone'], ['acme', 'app'], ['acme', 'web', 'bob'], ['blue', 'app', 'eve']]
const often = <T>(arbitrary: fc.Arbitrary<T>, other: T): fc.Arbitrary<T> =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(other) }, { weight: 1, arbitrary })

/** Some of the levels, each with the settings that it has. */
const levelsOf = (stored: boolean): fc.Arbitrary<Level[]> =>
  fc
    .tuple(
      ...paths.map((path) =>
        fc.option(
          fc.record({
            path: fc.constant(path),
            settings: path.length === 1 ? tenantSettings : settings,
            closed: often(fc.constant(stored ? now - 5 : undefined), undefined),
            unclear: often(fc.constant(stored), false)
          }),
          { nil: undefined }
        )
      )
    )
    .map((levels) => levels.filter((level) => level !== undefined))

const storedKeys = (secrets: readonly string[]): fc.Arbitrary<Key[]> =>
  fc.tuple(
    ...['one', 'two', 'three'].map((name) =>
      fc.record({
        name: fc.constant(name),
        path: fc.constantFrom(...owners),
        settings,
        unclear: often(fc.constant(true), false),
        revoked: often(fc.constant(now - 7), undefined),
        secrets: fc
          .tuple(
            fc.constantFrom(undefined, undefined, now - 1, now, now + 1),
            fc.boolean(),
            fc.constantFrom(...secrets)
          )
          .map(([until, both, shared]): Key['secrets'] => [
            [`sk-${name}`, undefined],
            ...(both ? [[name === 'three' ? shared : `sk-${name}-old`, until] as [string, number | undefined]] : [])
          ])
      })
    )
  )

/** The file, whose levels have all those above them, and whose keys have an owner in it. */
const inFile: fc.Arbitrary<Declared> = levelsOf(false).chain((some) => {
  const levels = some.filter(({ path }) =>
    path.every((_, depth) => some.some((level) => level.path.join('/') === path.slice(0, depth + 1).join('/')))
  )
  if (levels.length === 0) return fc.constant({ levels, keys: [] })
  const keys = ['f1', 'f2'].map((name) =>
    fc.record({
      name: fc.constant(name),
      path: fc.constantFrom(...levels.map(({ path }) => path)),
      settings,
      secrets: fc.constant<Key['secrets']>([[`sk-${name}`, undefined]])
    })
  )
  return fc.record({ levels: fc.constant(levels), keys: fc.tuple(...keys) })
})
const inStore: fc.Arbitrary<Declared> = fc.record({
  levels: levelsOf(true),
  keys: storedKeys(['sk-f1', 'sk-three-old'])
})

/**
 * What a store has at first, and later. Revoked keys stay as they are, and nobody can write settings that are not
 * understood: another version of the gateway left them.
 */
const inTime: fc.Arbitrary<[first: Declared, second: Declared]> = fc.tuple(inStore, inStore).map(([first, second]) => [
  first,
  {
    levels: second.levels.map((level) => ({ ...level, unclear: false })),
    keys: second.keys.map((key, at) => (first.keys[at]!.revoked === undefined ? key : first.keys[at]!))
  }
])

const folder = t.testdir()

function load({ levels, keys }: Declared): ReturnType<typeof loadConfig>['config'] & object {
  const tenants: Record<string, any> = {}
  for (const { path, settings } of levels) {
    const [tenant, project, member] = path as [string, string?, string?]
    if (project === undefined) tenants[tenant] = { ...settings, projects: {} }
    else if (member === undefined) tenants[tenant].projects[project] = { ...settings, members: {} }
    else tenants[tenant].projects[project].members[member] = settings
  }
  const file = join(folder, 'gateway.yaml')
  const whole = {
    channels: { demo: { protocol: 'simulator', models: Object.fromEntries(models.map((name) => [name, name])) } },
    models: Object.fromEntries(models.map((name) => [name, { price: 'free' }])),
    tenants,
    keys: keys.map(({ name, path: [tenant, project, member], settings, secrets }) => ({
      name,
      tenant,
      project,
      member,
      key: secrets[0]![0],
      ...settings
    })),
    chain: ['auth']
  }
  writeFileSync(file, JSON.stringify(whole))
  const { config, problems } = loadConfig(file, { env: {}, plugins, simulatorUrl: new URL('http://127.0.0.1:1/v1') })
  if (!config) throw new Error(problems.map(({ place, message }) => `${place} ${message}`).join('\n'))
  return config
}

const kindOf = (path: readonly string[]): 'tenant' | 'project' | 'member' =>
  (['tenant', 'project', 'member'] as const)[path.length - 1]!

/** The changes that make the documents of a store those declared. */
function changesTo({ levels, keys }: Declared): DocumentChange[] {
  const understood = ({ settings, unclear }: Level): Record<string, unknown> => ({
    ...settings,
    ...(unclear && { budget: { usd: 1, per: 'eon' } })
  })
  return [
    ...paths.map((path) => {
      const level = levels.find((level) => level.path === path)
      const value = level && {
        path: path as unknown as Path,
        settings: understood(level),
        created: 0,
        closed: level.closed!
      }
      return changeOf(levelDocuments[kindOf(path)], path.join('/'), value ?? null)
    }),
    ...keys.map((key) => {
      const [tenant, project, member] = key.path as [string, string?, string?]
      const secrets = key.secrets.map(([text, until]) => ({
        sha256: digestOf(text).toString('hex'),
        hint: 'sk-…',
        created: 0,
        ...(until !== undefined && { until })
      }))
      const { name, revoked } = key
      const value = { name, tenant, project, member, settings: understood(key), secrets, created: 0, revoked }
      return changeOf(keyDocuments, name, value)
    })
  ]
}

const matches = (lists: string[] | undefined, name: string): boolean =>
  (lists ?? ['*']).some((glob) => new RegExp(`^${glob.replaceAll('*', '.*')}$`).test(name))
const off = ({ settings, closed, unclear }: Level): boolean =>
  settings.enabled === false || closed !== undefined || unclear === true
const listed = (list: string[] | undefined): string => (list ?? ['*']).join(', ') || 'none'
const iso = (time: number): string => new Date(time).toISOString()

/** A level or a key, with its name in balances and its place. */
type Placed = Level & { scope: string; where: string; kind: Scope['kind'] }

/** Answers by the declarations alone. */
class Oracle {
  readonly file: Declared
  readonly store: Declared

  constructor(file: Declared, store: Declared) {
    this.file = file
    this.store = store
  }

  level(path: readonly string[]): Placed | undefined {
    const at = ({ levels }: Declared) => levels.find((level) => level.path.join('/') === path.join('/'))
    const kind = kindOf(path)
    const scope = `${kind}:${path.join('/')}`
    const places = ['tenants', 'projects', 'members']
    const own = at(this.file)
    if (own) return { ...own, kind, scope, where: path.map((name, depth) => `${places[depth]}.${name}`).join('.') }
    const stored = at(this.store)
    return stored && { ...stored, kind, scope, where: `${scope} in the store` }
  }

  /** The key with a secret, and its time. */
  key(text: string): { key: Key & Placed; until: number | undefined } | undefined {
    const has = ({ secrets }: Key) => secrets.findLast(([own]) => own === text)
    const own = this.file.keys.find(has)
    if (own)
      return { key: { ...own, kind: 'key', scope: `key:${own.name}`, where: `keys[${own.name}]` }, until: undefined }
    const stored = this.store.keys.findLast((key) => key.revoked === undefined && has(key))
    if (!stored) return undefined
    const scope = `key:${stored.name}`
    return { key: { ...stored, kind: 'key', scope, where: `${scope} in the store` }, until: has(stored)![1] }
  }

  /** The levels of a key and the key itself, outermost first; undefined when one is not there. */
  line(key: Key & Placed): Placed[] | undefined {
    const line = key.path.map((_, depth) => this.level(key.path.slice(0, depth + 1)))
    return line.every((level) => level !== undefined) ? [...line, key] : undefined
  }

  /** The line of a secret that is valid. */
  valid(text: string): Placed[] | undefined {
    const found = this.key(text)
    if (!found || (found.until !== undefined && found.until <= now)) return undefined
    const line = this.line(found.key)
    return line?.some(off) ? undefined : line
  }

  whyNoKey(text: string): RuleReason {
    const found = this.key(text)
    if (!found) {
      const revoked = this.store.keys.findLast(
        (key) => key.revoked !== undefined && key.secrets.some(([own]) => own === text)
      )
      const start = digestOf(text).toString('hex').slice(0, 8)
      return revoked
        ? {
            by: 'key',
            what: `the key ${revoked.name} was revoked at ${iso(revoked.revoked!)}`,
            where: `key:${revoked.name} in the store`,
            remedy: 'make another key'
          }
        : { by: 'key', what: `no key has this secret, whose SHA-256 begins with ${start}`, where: null, remedy: null }
    }
    const { key, until } = found
    const say = (what: string, where: string, remedy: string): RuleReason => ({ by: 'key', what, where, remedy })
    if (until !== undefined && until <= now)
      return say(
        `this secret of the key ${key.name} was replaced, and is refused since ${iso(until)}`,
        key.where,
        'use the new secret'
      )
    if (off(key)) return say(`the key ${key.name} is disabled`, `${key.where}.enabled`, 'enable it')
    const owner = key.path.join('/')
    const line = this.line(key)
    if (!line)
      return say(`the key ${key.name} is of ${owner}, which there is not`, key.where, `make ${owner}, or another key`)
    const first = line.find(off)
    if (!first) return say(`the key ${key.name} is valid`, key.where, 'try again')
    return first.closed === undefined
      ? say(`${first.scope} is disabled`, `${first.where}.enabled`, 'enable it')
      : say(`${first.scope} was closed at ${iso(first.closed)}`, first.where, 'use a key of another')
  }
}

const budgetsOf = ({ settings: { budget } }: Level): Scope['budgets'] =>
  budget ? [{ limit: BigInt(budget.usd) * 1_000_000_000n, per: budget.per }] : []
const expiryOf = (line: readonly Placed[]): number | undefined => {
  const times = line.flatMap(({ settings: { expires } }) => (expires === undefined ? [] : [Date.parse(expires)]))
  return times.length === 0 ? undefined : times.sort((a, b) => a - b)[0]
}
const mayUse = (line: readonly Placed[], model: string): boolean =>
  line.every(({ settings }) => matches(settings.models, model))
const mayCall = (line: readonly Placed[], endpoint: string): boolean =>
  line.every(({ settings }) => matches(settings.endpoints, endpoint))

/** The limits of a line for a model, as rows. */
function limitsOf(line: readonly Placed[], model: string): unknown[] {
  return line.flatMap(({ scope, kind, settings: { limits: { models = {}, ...own } = {} } }) => {
    const sets: [string | null, Rates][] = [[null, own], ...Object.entries(models)]
    return sets
      .filter(
        ([glob, rates]) => Object.keys(rates).length > 0 && (glob === null || (model !== '' && matches([glob], model)))
      )
      .map(([glob, rates]) => ({
        id: glob === null ? scope : `${scope} ${glob}`,
        home: line[0]!.scope,
        level: kind,
        scope,
        models: glob,
        rates
      }))
  })
}

/** Why a line does not allow what is asked for. */
function whyNot(line: readonly Placed[], about: 'model' | 'endpoint', name: string): RuleReason {
  const member = `${about}s` as const
  const first = line.find(({ settings }) => !matches(settings[member], name))
  if (!first) return { by: about, what: `${name} is allowed`, where: null, remedy: null }
  return {
    by: about,
    what: `${first.scope} allows the ${member} ${listed(first.settings[member])}, and not ${name}`,
    where: `${first.where}.${member}`,
    remedy: `add ${name} to them`
  }
}

function whyLate(line: readonly Placed[]): RuleReason {
  const first = line.find(({ settings }) => Date.parse(settings.expires ?? '') === expiryOf(line))!
  return {
    by: 'key',
    what: `${first.scope} expired at ${first.settings.expires}`,
    where: `${first.where}.expires`,
    remedy: 'set a later time'
  }
}

/** Undefined members count as absent ones. */
const plain = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, member) => (typeof member === 'bigint' ? `${member}n` : member)) ?? 'null')

function equal(found: unknown, expected: unknown, about: string): void {
  const [one, other] = [JSON.stringify(plain(found)), JSON.stringify(plain(expected))]
  if (one !== other) throw new Error(`${about}: ${one} in the place of ${other}`)
}

/** Scopes without the number of their configuration, which no declaration says. */
function declared(scopes: readonly Scope[]): Scope[] {
  return scopes.map(({ generation: _generation, ...scope }) => scope)
}

/** Compares a caller with what the oracle says of its line. */
function compare(caller: Caller, line: readonly Placed[], text: string): void {
  const key = line.at(-1) as Placed & Key
  const [tenant, project, member] = key.path
  const { scopes, tags, expires } = caller
  const own = { key: caller.key, tenant: caller.tenant, project: caller.project, member: caller.member }
  equal(own, { key: key.name, tenant, project, member }, text)
  equal(caller.digest.equals(digestOf(text)), true, 'its digest')
  const rows = line.map((level) => ({
    kind: level.kind,
    id: level.scope,
    budgets: budgetsOf(level),
    tags: level.settings.tags
  }))
  equal(declared(scopes), rows, 'scopes')
  equal(new Set(scopes.map(({ generation }) => generation)).size, 1, 'all of one configuration')
  const merged = Object.entries(
    Object.assign({}, ...line.map(({ settings }) => settings.tags)) as Record<string, string>
  )
  equal(tags, merged.length === 0 ? undefined : Object.fromEntries(merged.sort(([a], [b]) => (a < b ? -1 : 1))), 'tags')
  equal(expires, expiryOf(line), 'its time')
  if (expires !== undefined) equal(caller.whyNot('time', ''), whyLate(line), 'why it is late')
  // Twice, because answers about known models are remembered.
  for (const round of [1, 2]) {
    for (const model of asked) {
      equal(caller.mayUse(model), mayUse(line, model), `may use ${model}, round ${round}`)
      equal(caller.limitsOf(model), limitsOf(line, model), `the limits of ${model}, round ${round}`)
      equal(caller.whyNot('model', model), whyNot(line, 'model', model), `why not ${model}`)
      if (models.includes(model)) equal(caller.limitsOf(model) === caller.limitsOf(model), true, 'one array')
    }
  }
  for (const endpoint of endpoints) {
    equal(caller.mayCall(endpoint), mayCall(line, endpoint), `may call ${endpoint}`)
    equal(caller.whyNot('endpoint', endpoint), whyNot(line, 'endpoint', endpoint), `why not ${endpoint}`)
  }
}

/** The texts of all secrets that anybody may have. */
const texts = ['f1', 'f2', 'one', 'two', 'three', 'one-old', 'two-old', 'three-old', 'nobody'].map(
  (name) => `sk-${name}`
)

/** Client secrets: the key that made each, and its time. */
const bearers = ['sk-f1', 'sk-one', 'sk-two', 'sk-nobody'].flatMap((issuer) =>
  [now + 1000, Date.UTC(2028, 0, 1), Date.UTC(2030, 0, 1)].map((expires) => ({
    issuer,
    text: `ek_${issuer}-${expires}`,
    model: 'gpt-5',
    expires
  }))
)

/** What a caller by a client secret may do: that of its issuer, within one model, one endpoint and its time. */
function compareBearer(
  caller: Caller,
  line: readonly Placed[],
  { text, model: only, expires }: (typeof bearers)[0]
): void {
  const key = line.at(-1) as Placed & Key
  equal([caller.key, caller.digest.equals(digestOf(text))], [key.name, true], text)
  const last = expiryOf(line)
  equal(caller.expires, last !== undefined && last < expires ? last : expires, 'its time')
  const secret = (by: RuleReason['by'], what: string): RuleReason => ({
    by,
    what: `a client secret of the key ${key.name} ${what}`,
    where: null,
    remedy: null
  })
  const late = last !== undefined && last <= expires ? whyLate(line) : secret('key', `expired at ${iso(expires)}`)
  equal(caller.whyNot('time', ''), late, 'why it is late')
  for (const model of asked) {
    equal(caller.mayUse(model), model === only && mayUse(line, model), `may use ${model} by a client secret`)
    const own = mayUse(line, model) ? secret('model', `is for sessions of ${only} alone`) : whyNot(line, 'model', model)
    equal(caller.whyNot('model', model), own, `why not ${model} by a client secret`)
  }
  for (const endpoint of endpoints) {
    const may = mayCall(line, endpoint)
    equal(caller.mayCall(endpoint), endpoint === 'realtime' && may, `may call ${endpoint} by a client secret`)
    const own = may ? secret('endpoint', `is for sessions of ${only} alone`) : whyNot(line, 'endpoint', endpoint)
    equal(caller.whyNot('endpoint', endpoint), own, `why not ${endpoint} by a client secret`)
  }
}

/** The scopes of an open exchange, whose budgets are those of now. */
function scopesNow(opened: readonly Scope[], line: readonly Placed[] | undefined, oracle: Oracle): readonly Scope[] {
  if (!line) return opened
  const same = opened.length === line.length && opened.every(({ id }, at) => id === line[at]!.scope)
  return opened.map((scope, at) => {
    const level = scope.kind === 'key' ? line.at(-1) : oracle.level(scope.id.split(':')[1]!.split('/'))
    return level ? { ...scope, budgets: budgetsOf(level), ...(same && { tags: line[at]!.settings.tags }) } : scope
  })
}

t.setTimeout(600_000)

t.test('models that clients make up take no memory', (t) => {
  t.intercept(Date, 'now', { value: () => now })
  const settings = { models: ['gpt-*', 'm*'], limits: { models: { 'm*': { rps: 1 } } } }
  const level = { path: ['acme'], settings }
  const key: Key = { ...level, name: 'f1', secrets: [['sk-f1', undefined]] }
  const tenancy = new Tenancy(
    load({ levels: [level], keys: [key] }),
    new MemoryDocuments(),
    new SecretBook(new MemoryDocuments())
  )
  const caller = tenancy.findKey(digestOf('sk-f1'))!
  const ask = (from: number): void => {
    for (let n = from; n < from + 20_000; n++) {
      const model = `m${n}`.padEnd(100, '-')
      if (!caller.mayUse(model) || caller.limitsOf(model).length !== 2) throw new Error(model)
    }
  }
  ask(0)
  const before = heldBytes()
  ask(20_000)
  t.ok(heldBytes() - before < 1_000_000)
  t.end()
})

t.test(`of ${runs} tenancies every caller is who the declarations say, before and after they change`, (t) => {
  t.intercept(Date, 'now', { value: () => now })
  const property = fc.property(inFile, inTime, inFile, (file, [first, second], later) => {
    const documents = new MemoryDocuments()
    void documents.change(changesTo(first))
    const secrets = new SecretBook(new MemoryDocuments(), () => now)
    for (const { text, issuer, model, expires } of bearers)
      void secrets.put({ sha256: digestOf(text), issuer: digestOf(issuer), model, expires })
    const tenancy = new Tenancy(load(file), documents, secrets)
    const digests = new Map(texts.map((text) => [text, digestOf(text)]))
    const check = (tenancy: Tenancy, oracle: Oracle): void => {
      for (const text of texts) {
        const line = oracle.valid(text)
        const digest = digests.get(text)!
        const caller = tenancy.findKey(digest)
        if (!line !== !caller) throw new Error(`${text} is ${line ? '' : 'not '}to be found`)
        if (caller) compare(caller, line!, text)
        for (let again = 0; again < 2; again++) equal(tenancy.findPresented(text) === caller, true, 'one caller')
        equal(tenancy.whyNoKey(digest), oracle.whyNoKey(text), `why ${text} is not valid`)
      }
      for (const bearer of bearers) {
        const line = oracle.valid(bearer.issuer)
        const caller = tenancy.findPresented(bearer.text) as Caller | undefined
        if (!line !== !caller) throw new Error(`${bearer.text} is ${line ? '' : 'not '}to be found`)
        if (caller) compareBearer(caller, line!, bearer)
      }
      const tenants = ['acme', 'blue'].flatMap((name) => {
        const level = oracle.level([name])
        return level ? [[name, !off(level), expiryOf([level]), level.settings.foreign_references]] : []
      })
      const found = [...tenancy.tenants.values()].map(({ name, enabled, expires, foreignReferences }) => [
        name,
        enabled,
        expires,
        foreignReferences
      ])
      equal(found.sort(), tenants, 'tenants')
    }
    const before = new Oracle(file, first)
    check(tenancy, before)
    const opened = texts.flatMap((text) => (tenancy.findPresented(text) as Caller | undefined) ?? [])
    void documents.change(changesTo(second))
    check(tenancy, new Oracle(file, second))
    const next = new Tenancy(load(later), documents, secrets)
    const after = new Oracle(later, second)
    check(next, after)
    for (const caller of opened) {
      const text = texts.find((text) => digestOf(text).equals(caller.digest))!
      const expected = scopesNow(caller.scopes, after.valid(text), after)
      equal(declared(next.scopesNow(caller)), declared(expected), `the scopes of ${text} now`)
      equal(next.scopesNow(caller) === next.scopesNow(caller), true, 'the same scopes')
    }
  })
  fc.assert(property, { numRuns: runs })
  t.end()
})
