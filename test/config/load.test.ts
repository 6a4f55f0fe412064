// The loader of gateway.yaml: every problem with its place, and exactly what a right file means.
// Runs alone: it changes the folder that its process is in.
import fc from 'fast-check'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { channelEndpoints } from '../../core/catalogue/endpoints.ts'
import { loadConfig } from '../../config/load.ts'
import type { Loaded } from '../../config/load.ts'
import type { Config } from '../../core/catalogue/settings.ts'
import { plugins } from './plugins.ts'
import { codePoint } from '../kit/code-point.ts'

const simulatorUrl = new URL('http://127.0.0.1:41234/v1')
const cases = join(import.meta.dirname, 'cases')
const folder = t.testdir()
const file = join(folder, 'gateway.yaml')

function load(text: string | Buffer, env: Record<string, string> = {}): Loaded {
  writeFileSync(file, text)
  return loadConfig(file, { env, plugins, simulatorUrl })
}

function loaded(text: string, env: Record<string, string> = {}): Config {
  const { config, problems } = load(text, env)
  if (!config) throw new Error(problems.map(({ place, message }) => `${place} ${message}`).join('\n'))
  return config
}

/** The messages alone, without the file's name. */
function messages(text: string | Buffer, env: Record<string, string> = {}): string[] {
  return (load(text, env).problems ?? []).map(({ place, message }) => `${place.replace(file, '')} ${message}`)
}

const least = `
channels: { demo: { protocol: simulator, models: { demo: upstream-demo } } }
models: { demo: { price: free } }
chain: [auth]
`

t.test('each faulty file gives exactly its problems, in the order of the file, with their places', (t) => {
  // In these files whatever is secret has the word hunter in it.
  const env = {
    PORT_WORD: 'hunter-port',
    COUNT: '5',
    SIZE_WORD: 'hunter-size',
    BASE: 'hunter-base',
    SECRET: 'hunter',
    PRICE: 'hunter-price',
    NOT_A_KEY: 'hunter-key',
    TENANT: 'hunter-tenant'
  }
  const cwd = process.cwd()
  process.chdir(cases)
  for (const name of readdirSync('.').filter((name) => name.endsWith('.yaml'))) {
    const problems = loadConfig(name, { env, plugins, simulatorUrl }).problems ?? []
    const text = problems.map(({ place, message }) => `${place} ${message}\n`).join('')
    t.equal(text, readFileSync(name.replace('.yaml', '.problems'), 'utf8'), name)
    t.notMatch(text, /hunter/, `${name} shows no secret`)
  }
  process.chdir(cwd)
  t.end()
})

t.test('the least file is filled in with the documented defaults', (t) => {
  const config = loaded(least)
  t.match(config.settings, {
    listen: { host: '127.0.0.1', port: 8080, tls: undefined },
    admin: { host: '127.0.0.1', port: 9090, token: '' },
    store: {
      sqlite: join(folder, 'data/sluice.db'),
      durability: 'power',
      requests: { age: 30 * 86_400_000, size: 8 * 2 ** 30 },
      journal: { age: 90 * 86_400_000, size: 4 * 2 ** 30 },
      answers: { age: 86_400_000, size: 256 * 2 ** 20 },
      routes: { age: 30 * 86_400_000 }
    }
  })
  t.same(config.settings.limits, {
    jsonBody: 32 * 2 ** 20,
    multipartBody: 100 * 2 ** 20,
    bodyMemory: 512 * 2 ** 20,
    cacheMemory: 64 * 2 ** 20,
    lameDuck: 0,
    drainTimeout: 30_000,
    clientStall: 60_000,
    clientHeader: 10_000,
    clientBody: 30_000,
    keepAlive: 65_000,
    connections: 20_000,
    onDisconnect: 'drain',
    disconnectDrain: { time: 1000, bytes: 256 * 1024, concurrent: 64 },
    realtime: { origins: [], message: 4 * 1024 * 1024, idle: 600_000, duration: 3_600_000, ping: 20_000 },
    perTenant: { keys: 10_000, projects: 1_000, members: 10_000 }
  })
  const channel = config.channels.get('demo')!
  t.equal(channel.baseUrl, simulatorUrl)
  t.equal(channel.protocol, 'openai')
  t.equal(channel.private, true)
  t.same([...channel.endpoints], channelEndpoints, 'a simulator speaks everything')
  t.same([...channel.models], [['demo', 'upstream-demo']])
  t.same(channel.timeouts, { connect: 5000, firstByte: 60_000, idle: 60_000, total: 600_000 })
  t.same(config.simulated, ['demo'])
  t.same(config.models.get('demo')!.channels, [channel])
  t.same(config.models.get('demo')!.prices, [{ from: -Infinity, price: { version: 'free', perMillion: {} } }])
  t.same(config.chain, [{ plugin: 'auth', options: {}, place: `${file}:4:9` }])
  t.same([...config.tenants], [])
  t.same(config.keys, [])
  t.equal(config.hash, createHash('sha256').update(least).digest('hex'))
  t.end()
})

t.test('a file that says everything means what it says', (t) => {
  const config = loaded(
    `
x-budgets: &small { usd: 0.000000001, per: total }
listen: { host: "::", port: 0 }
admin: false
store: { sqlite: /var/lib/x.db, durability: process, requests: { age: 1d, size: 1GiB }, journal: { age: 2d, size: 2GiB }, answers: { age: 2h, size: 32MiB }, routes: { age: 3d } }
limits: { json_body: 1048576, connections: "\${CONNECTIONS}", on_disconnect: abort, drain_timeout: 2m }
channels:
  first:
    protocol: openai
    base_url: https://one.example/api/v1///?api-version=2
    credential: "\${KEY}"
    endpoints: [chat, embeddings]
    models: { gpt-5: gpt-5-2026-08-01, meta/llama:free: llama }
    weight: 3
    priority: 1
    timeouts: { connect: 1500ms, total: 1h }
    headers: { X-Team: platform }
  second: { protocol: openai, base_url: "http://10.0.0.8:8000", private: true, models: { gpt-5: x } }
  other: { protocol: anthropic, base_url: https://two.example/v1, models: { gpt-5: claude } }
models:
  gpt-5:
    owned_by: openai
    price: { input: 1.25, cached_input: "0.125", cache_write: 0, output: 10, image: 0.04 }
    context_window: 400000
    max_output_tokens: 128000
    created: 2025-08-07
    deprecated: { since: 2026-09-01, sunset: "2027-03-01T12:30:00+02:00", replacement: gpt-6 }
  meta/llama:free: { price: { input: 0.0000005, output: 1e-6, per: 1 } }
tenants:
  acme:
    models: ["gpt-*"]
    budget: { usd: "1000.5", per: month }
    projects:
      web: { budget: { usd: 100, per: day }, members: { alice@example.com: { models: [gpt-5], budget: *small } } }
keys:
  - name: laptop
    key: sk-laptop
    tenant: acme
    project: web
    member: alice@example.com
    models: [gpt-5]
    endpoints: [chat, models]
    limits: { rps: 10, rpm: 300, tpm: 200000, concurrency: 8 }
    budget: { <<: *small, per: day }
    expires: 2027-01-01
  - { name: hashed, key_sha256: ${createHash('sha256').update('sk-other').digest('hex').toUpperCase()}, tenant: acme }
chain: [auth: , log: { flush: 1s, list: [a], nested: { depth: 3 } }, shy: { token: "\${KEY}" }]
`,
    { CONNECTIONS: '17', KEY: '0123456789' }
  )
  t.same(config.settings.listen, { host: '::', port: 0, tls: undefined })
  t.equal(config.settings.admin, undefined)
  t.same(config.settings.store, {
    sqlite: '/var/lib/x.db',
    durability: 'process',
    requests: { age: 86_400_000, size: 2 ** 30 },
    journal: { age: 2 * 86_400_000, size: 2 * 2 ** 30 },
    answers: { age: 7_200_000, size: 32 * 2 ** 20 },
    routes: { age: 3 * 86_400_000 }
  })
  t.match(config.settings.limits, { jsonBody: 1048576, connections: 17, onDisconnect: 'abort', drainTimeout: 120_000 })

  const first = config.channels.get('first')!
  t.equal(first.baseUrl.href, 'https://one.example/api/v1?api-version=2', 'without trailing slashes, with the query')
  t.equal(first.credential, '0123456789', 'digits stay text')
  t.same(
    { ...first.headers },
    { 'x-team': 'platform', authorization: 'Bearer 0123456789' },
    'the credential as its protocol wants it'
  )
  t.same(first.timeouts, { connect: 1500, firstByte: 60_000, idle: 60_000, total: 3_600_000 })
  t.equal(config.channels.get('second')!.baseUrl.href, 'http://10.0.0.8:8000/')

  const gpt = config.models.get('gpt-5')!
  t.same(
    gpt.channels.map(({ name }) => name),
    ['second', 'other', 'first'],
    'by priority, whatever they speak'
  )
  t.same(gpt.prices[0]!.price.perMillion, {
    input: 1_250_000_000n,
    cached_input: 125_000_000n,
    cache_write: 0n,
    cache_write_long: 0n,
    output: 10_000_000_000n,
    audio_input: 1_250_000_000n,
    image_input: 1_250_000_000n,
    audio_output: 10_000_000_000n,
    image_output: 10_000_000_000n,
    image: 40_000_000_000_000n
  })
  t.match(gpt.prices[0]!.price.version, /^[0-9a-f]{12}$/)
  t.equal(gpt.created, Date.UTC(2025, 7, 7) / 1000)
  t.same(gpt.deprecated, { since: Date.UTC(2026, 8, 1), sunset: Date.UTC(2027, 2, 1, 10, 30), replacement: 'gpt-6' })
  t.match(config.models.get('meta/llama:free')!.prices[0]!.price.perMillion, {
    input: 500_000_000n,
    output: 1_000_000_000n
  })

  const acme = config.tenants.get('acme')!
  t.same(acme.budgets, [{ limit: 1_000_500_000_000n, per: 'month' }])
  t.match(acme.projects.get('web')!.members.get('alice@example.com'), {
    models: ['gpt-5'],
    budgets: [{ limit: 1n, per: 'total' }]
  })
  t.match(config.keys[0], {
    name: 'laptop',
    sha256: createHash('sha256').update('sk-laptop').digest(),
    tenant: 'acme',
    project: 'web',
    member: 'alice@example.com',
    models: ['gpt-5'],
    endpoints: ['chat', 'models'],
    budgets: [{ limit: 1n, per: 'day' }],
    expires: Date.UTC(2027, 0, 1),
    place: `${file}:36:5`
  })
  t.same(config.keys[0]!.limits, { rps: 10, rpm: 300, tpm: 200_000, concurrency: 8 })
  t.same(config.keys[1]!.sha256, createHash('sha256').update('sk-other').digest())
  t.match(config.chain, [
    { plugin: 'auth', place: `${file}:47:9` },
    { plugin: 'log', options: { sink: 'stdout', flush: 1000, list: ['a'], nested: { depth: 3 } } },
    { plugin: 'shy', options: { token: '0123456789' } }
  ])
  t.end()
})

t.test('names and globs of models that mean none are warned of, with their places', (t) => {
  const { config } = load(
    `${least}
tenants:
  acme: { models: [demo, "dem*", "gpt-*"], projects: { web: { members: { alice: { models: [dmeo] } } } } }
  all: { models: ["*"] }
keys: [{ name: a, key: "${'${KEY_OF_A_PERSON}'}", tenant: acme, models: ["*-x", demo] }]
`,
    { KEY_OF_A_PERSON: 'sk-hunter-000000000000000000' }
  )
  t.same(
    config!.warnings.map(({ place, message }) => `${place.replace(file, '')} ${message}`),
    [
      ':7:34 tenants.acme.models[2]: no model is meant by "gpt-*"',
      ':7:92 tenants.acme.projects.web.members.alice.models[0]: no model is meant by "dmeo", did you mean "demo"?',
      ':9:69 keys[0].models[0]: no model is meant by "*-x"'
    ]
  )
  t.same(loaded(least).warnings, [])
  t.end()
})

/** The warnings alone, without the file's name. */
function warnings(text: string, env: Record<string, string> = {}): string[] {
  return loaded(text, env).warnings.map(({ place, message }) => `${place.replace(file, '')} ${message}`)
}

t.test('secrets in clear are warned of, and neither variables nor what is no secret', (t) => {
  const text = `admin: { token: hunter-token-0123456789 }
channels:
  demo:
    protocol: openai
    base_url: https://a.example/v1
    credential: hunter-credential
    headers: { x-team: platform, x-api-key: hunter-header, x-token: "\${SECRET}" }
    query: { api-version: "1", sig-token: hunter-query }
    models: { demo: m }
models: { demo: { price: free } }
tenants: { acme: {} }
keys:
  - { name: a, key: sk-hunter-1, tenant: acme }
  - { name: b, key: "\${KEY:-sk-hunter-2}", tenant: acme }
  - { name: c, key_sha256: ${'a'.repeat(64)}, tenant: acme }
chain: [auth]
`
  const found = warnings(text, { SECRET: 'hunter' })
  const remedy = 'a secret in clear, which whoever reads the file has: put it into the environment, and ${NAME} here'
  t.same(found, [
    `:1:17 admin.token: ${remedy}`,
    `:6:17 channels.demo.credential: ${remedy}`,
    `:7:45 channels.demo.headers.x-api-key: ${remedy}`,
    `:8:43 channels.demo.query.sig-token: ${remedy}`,
    `:13:21 keys[0].key: ${remedy}`
  ])
  t.end()
})

t.test('prices that are in force for more than a year are warned of', (t) => {
  const recent = new Date(Date.now() - 300 * 86_400_000).toISOString().slice(0, 10)
  const dated = (price: string): string => least.replace('price: free', `price: ${price}`)
  const [old, ...others] = warnings(dated('{ from: 2021-05-01, input: 1, output: 2 }'))
  t.match(
    old,
    /^:3:\d+ models\.demo\.price\.from: this price is in force since 2021-05-01: compare it with .* new "from"$/
  )
  t.same(others, [])
  t.same(warnings(dated(`{ from: ${recent}, input: 1, output: 2 }`)), [])
  t.same(warnings(dated('{ input: 1, output: 2 }')), [], 'without a date nothing is known')
  t.same(
    warnings(dated(`[{ from: 2021-05-01, input: 1, output: 2 }, { from: ${recent}, input: 1, output: 3 }]`)),
    [],
    'an old one that is not in force any more'
  )
  t.match(warnings(dated('[{ from: 2021-05-01, input: 1, output: 2 }, { from: 2999-01-01, input: 1, output: 3 }]')), [
    /models\.demo\.price\[0\]\.from: /
  ])
  const cost = 'cost: { models: { demo: { from: 2021-05-01, input: 1, output: 2 } } }'
  t.match(warnings(least.replace('models: { demo: upstream-demo }', `models: { demo: upstream-demo }, ${cost}`)), [
    /channels\.demo\.cost\.models\.demo\.from: /
  ])
  t.end()
})

t.test('a model that no key may use and a key that may use no model are warned of', (t) => {
  const text = (rest: string): string =>
    `${least.replace('demo: { price: free }', 'demo: { price: free }, other: { price: free }').replace('demo: upstream-demo', 'demo: m, other: n')}${rest}`
  t.same(warnings(text('')), [], 'without keys in the file all are made at run time')
  const tenants = 'tenants: { acme: { models: [demo, other], projects: { web: { models: [demo] } } } }\n'
  const key = (name: string, more: string): string =>
    `  - { name: ${name}, key: "\${K}-${name}", tenant: acme${more} }\n`
  const said = (keys: string): string[] => warnings(text(`${tenants}keys:\n${keys}`), { K: 'sk-hunter' })
  t.same(said(key('a', '')), [])
  t.match(said(key('a', ', project: web')), [
    /^:3:\d+ models\.other: no key of the configuration may use it: allow it to a tenant/
  ])
  t.match(said(key('a', '') + key('b', ', project: web, models: [other]')), [
    /^:8:5 keys\[1\]: may use no model: let its/
  ])
  t.match(said(key('a', ', enabled: false')), [/models\.demo: no key/, /models\.other: no key/])
  t.end()
})

t.test('equal prices have one version, however they are written', (t) => {
  const version = (price: string): string =>
    loaded(least.replace('price: free', `price: ${price}`)).models.get('demo')!.prices[0]!.price.version
  t.equal(
    version('{ input: 1.25, output: 10 }'),
    version('{ output: "10.0", per: 1K, input: 0.00125 }'.replace('"10.0"', '0.01'))
  )
  t.equal(version('{ input: 1, output: 2 }'), version('{ input: 1, output: 2, cached_input: 1 }'))
  t.not(version('{ input: 1, output: 2 }'), version('{ input: 1, output: 2, cached_input: 0.5 }'))
  t.end()
})

t.test('prices and budgets are exact to the nano-dollar, as numbers and as text', (t) => {
  fc.assert(
    fc.property(
      fc.bigInt(0n, 10n ** 15n - 1n),
      fc.integer({ min: 0, max: 9 }),
      fc.boolean(),
      (digits, decimals, quoted) => {
        const whole = digits.toString().padStart(decimals + 1, '0')
        const written = decimals === 0 ? whole : `${whole.slice(0, -decimals)}.${whole.slice(-decimals)}`
        const usd = quoted ? JSON.stringify(written) : written
        const nano = digits * 10n ** BigInt(9 - decimals)
        fc.pre(nano <= 10n ** 18n)
        const config = loaded(
          `${least.replace('free', `{ input: ${usd}, output: 0 }`)}tenants: { acme: { budget: { usd: ${usd}, per: day } } }`
        )
        return (
          config.tenants.get('acme')!.budgets[0]!.limit === nano &&
          config.models.get('demo')!.prices[0]!.price.perMillion.input === nano
        )
      }
    ),
    { numRuns: 60 }
  )
  t.end()
})

t.test('sections with nothing in them, and list entries without options, are as if left out', (t) => {
  const config = loaded(
    `${least.replace('[auth]', '[auth, log: ]')}limits:\nkeys:\ntenants:\n  acme:\n    projects:\n      web:\n`
  )
  t.equal(config.settings.limits.jsonBody, 32 * 2 ** 20)
  t.same([...config.tenants.get('acme')!.projects.keys()], ['web'])
  t.match(config.chain[1], { plugin: 'log', options: { sink: 'stdout' } })
  t.end()
})

t.test('a variable is filled in where it stands, and typed by what is asked for', (t) => {
  const text = `${least}listen:\n  port: \${PORT}\n  host: "\${HOST:-::1}"\nadmin: "\${ADMIN}"\nstore:\n  sqlite: $$\${NAME:-}\${EMPTY:-x}.db\n`
  const { settings } = loaded(text, { PORT: '0', ADMIN: 'false', EMPTY: '' })
  t.same(settings.listen, { host: '::1', port: 0, tls: undefined })
  t.equal(settings.admin, undefined)
  t.equal(settings.store.sqlite, join(folder, '$x.db'))
  t.same(messages(text, { PORT: '80a', ADMIN: 'no' }), [
    ':6:9 listen.port: must be a whole number, not "${PORT}"',
    ':8:8 admin: must be a map or false, not "${ADMIN}"'
  ])
  t.same(messages(`${least}listen: { host: "\${toString}" }`), [
    ':5:17 the environment variable toString is not set: set it, or give a default with ${toString:-default}'
  ])
  t.end()
})

t.test('the redacted file keeps variables as written and shows no secret', (t) => {
  const { redacted } = loaded(
    `
x-secret: sk-hidden
admin: { token: "\${TOKEN}" }
listen: { host: "\${HOST:-127.0.0.1}" }
channels:
  demo:
    protocol: simulator
    credential: "\${KEY:-sk-hidden}"
    models: { demo: demo }
    headers: { x-a: hidden, x-b: "a\${KEY:-hidden}" }
    query: { code: hidden, api-version: "\${VERSION}" }
  other:
    protocol: openai
    base_url: "https://api.example.com/v1?key=hidden&version=\${VERSION}&hidden"
    models: { demo: demo }
  third:
    protocol: openai
    base_url: "\${BASE:-https://api.example.com/v1?key=hidden}"
    models: { demo: demo }
models: { demo: { price: free } }
tenants: { acme: { budget: { usd: 1.5, per: day } } }
keys: [{ name: a, key: sk-hidden, tenant: acme }, { name: b, key_sha256: ${'ab'.repeat(32)}, tenant: acme }]
chain: [auth, shy: { token: hidden }]
`,
    { TOKEN: 'hidden', VERSION: 'hidden' }
  )
  t.same(redacted, {
    admin: { token: '${TOKEN}' },
    listen: { host: '${HOST:-127.0.0.1}' },
    channels: {
      demo: {
        protocol: 'simulator',
        credential: '${KEY:-[redacted]}',
        models: { demo: 'demo' },
        headers: { 'x-a': '[redacted]', 'x-b': '[redacted]' },
        query: { code: '[redacted]', 'api-version': '${VERSION}' }
      },
      other: {
        protocol: 'openai',
        base_url: 'https://api.example.com/v1?key=[redacted]&version=${VERSION}&[redacted]',
        models: { demo: 'demo' }
      },
      third: {
        protocol: 'openai',
        base_url: '${BASE:-https://api.example.com/v1?key=[redacted]}',
        models: { demo: 'demo' }
      }
    },
    models: { demo: { price: 'free' } },
    tenants: { acme: { budget: { usd: 1.5, per: 'day' } } },
    keys: [
      { name: 'a', key: '[redacted]', tenant: 'acme' },
      { name: 'b', key_sha256: '[redacted]', tenant: 'acme' }
    ],
    chain: ['auth', { shy: { token: '[redacted]' } }]
  })
  t.end()
})

t.test('what cannot be read is a problem, not an error', (t) => {
  const at = (path: string): unknown => loadConfig(path, { env: {}, plugins, simulatorUrl }).problems
  mkdirSync(join(folder, 'folder'), { recursive: true })
  t.same(at(join(folder, 'nothing.yaml')), [
    { place: join(folder, 'nothing.yaml'), message: 'there is no such file: name one with --config' }
  ])
  t.same(at(join(folder, 'folder')), [{ place: join(folder, 'folder'), message: 'is not a file' }])
  t.same(messages(Buffer.alloc(1024 * 1024 + 1, '#')), [' is larger than 1 MiB'])
  t.same(messages(Buffer.from('listen: {}\nlimits: \0')), [':2:9 a NUL byte: the file must be text in UTF-8'])
  const wrong = 'a character that is not in UTF-8: save the file in that encoding'
  t.same(messages(Buffer.from([0x61, 0x3a, 0x20, 0xff])), [`:1:4 ${wrong}`])
  t.same(messages(Buffer.from('listen: {}\n# Grüße\nlimits: {}\n', 'latin1')), [`:2:5 ${wrong}`])
  t.same(load(`\uFEFF${least.replaceAll('\n', '\r\n')}`).problems, undefined, 'a byte order mark and CRLF are text')
  t.end()
})

t.test('bombs are refused, and thousands of keys may share one anchor', (t) => {
  const nine = (level: number): string =>
    level === 0
      ? 'x'
      : Array(9)
          .fill(`*l${level - 1}`)
          .join(', ')
  const levels = Array.from({ length: 12 }, (_, level) => `  l${level}: &l${level} [${nine(level)}]`)
  t.match(messages(`x-bomb:\n${levels.join('\n')}\n${least}`), [
    /^:\d+:\d+ aliases add more than 100000 values to the configuration$/
  ])
  t.match(messages('['.repeat(20_000))[0], /nested too deeply/)
  t.match(messages(`x: ${'['.repeat(100)}${']'.repeat(100)}\n`).join(), /nested too deeply/)
  const keys = Array.from(
    { length: 1000 },
    (_, index) => `  - { name: k${index}, key: sk-${index}, tenant: acme, limits: *limits }`
  )
  const config = loaded(`x-limits: &limits { rps: 7 }\n${least}tenants: { acme: }\nkeys:\n${keys.join('\n')}\n`)
  t.equal(config.keys.length, 1000)
  t.equal(config.keys[999]!.limits.rps, 7)
  const many = messages(Array.from({ length: 500 }, (_, index) => `k${index}: 1`).join('\n'))
  t.equal(many.length, 101, 'problems are shown up to a bound')
  t.equal(many.at(-1), ' and 403 more')
  t.end()
})

t.test('no bytes make the loader throw', (t) => {
  const tolerates = (text: string | Buffer): boolean => {
    const { config, problems } = load(text)
    return config ? !problems : problems.length > 0 && problems.every(({ place }) => place.startsWith(file))
  }
  const token = fc.constantFrom(
    '\n',
    '\n  ',
    '\n- ',
    ': ',
    ' ',
    '{',
    '}',
    '[',
    ']',
    ',',
    '"',
    "'",
    '|',
    '>',
    '&a',
    ' *a',
    '<<: ',
    '? ',
    '# ',
    '!!',
    '!x',
    '---',
    '\t',
    '%',
    '${A}',
    '${',
    '$$',
    'channels',
    'models',
    'keys',
    'chain',
    'limits',
    'tenants',
    'demo',
    'price',
    'auth',
    '1',
    '0x1F',
    '1e999',
    '.nan',
    '~',
    'null',
    'true',
    '__proto__',
    '\u2028',
    '😀'
  )
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => tolerates(Buffer.from(bytes))),
    { numRuns: 200 }
  )
  fc.assert(fc.property(fc.string({ unit: codePoint, maxLength: 60 }), tolerates), { numRuns: 200 })
  fc.assert(
    fc.property(fc.array(token, { maxLength: 40 }), (tokens) => tolerates(tokens.join(''))),
    { numRuns: 600 }
  )
  t.end()
})

t.test('no value in any place makes the loader throw, and a wrong one is reported at a line of the file', (t) => {
  const whole = parse(readFileSync(join(import.meta.dirname, '../../gateway.yaml'), 'utf8'))
  whole.chain = ['auth', { log: { nested: { depth: 1 } } }]
  const odd = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom(
      null,
      '',
      {},
      [],
      [null],
      -1,
      1e300,
      'sk-x',
      '${X}',
      '2026-01-01',
      JSON.parse('{"__proto__": 1, "constructor": {}}')
    )
  )
  /** Every way down the file, so that each value is replaced some time. */
  const paths: string[][] = []
  const walk = (value: unknown, path: string[]): void => {
    paths.push(path)
    if (typeof value === 'object' && value !== null)
      for (const [name, item] of Object.entries(value)) walk(item, [...path, name])
  }
  walk(whole, [])
  fc.assert(
    fc.property(fc.constantFrom(...paths.slice(1)), odd, (path, value) => {
      const copy = structuredClone(whole)
      let at = copy
      for (const name of path.slice(0, -1)) at = at[name]
      at[path.at(-1)!] = value
      const { config, problems } = load(JSON.stringify(copy, null, 1))
      return config
        ? !problems
        : problems.length > 0 && problems.every(({ place }) => /^:\d+:\d+$/.test(place.replace(file, '')))
    }),
    { numRuns: 800 }
  )
  t.end()
})
