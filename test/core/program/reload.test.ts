// Reloads: one at a time, the newest file wins, and a refused one changes nothing and says why.
import t from 'tap'
import { ConfigError } from '../../../core/program/configuration.ts'
import { silentLog } from '../../../core/telling/log.ts'
import { Metrics } from '../../../core/telling/metrics.ts'
import { Reloader } from '../../../core/program/reload.ts'
import type { Config, Settings } from '../../../core/catalogue/settings.ts'

const settings: Settings = {
  listen: { host: '127.0.0.1', port: 8080, tls: undefined },
  admin: {
    host: '127.0.0.1',
    port: 9090,
    token: '',
    console: false,
    write_config: false,
    origins: [],
    session: { idle: 1, total: 1 }
  },
  store: {
    sqlite: '/data/sluice.db',
    durability: 'power',
    requests: { age: 1, size: 1 },
    answers: { age: 1, size: 1 },
    journal: { age: 1, size: 1 },
    routes: { age: 1 },
    backups: undefined
  },
  workers: 1,
  limits: {
    jsonBody: 1,
    multipartBody: 1,
    cacheMemory: 1,
    bodyMemory: 1,
    lameDuck: 0,
    drainTimeout: 1,
    clientStall: 1,
    clientHeader: 1,
    clientBody: 1,
    keepAlive: 1,
    connections: 1,
    onDisconnect: 'drain',
    disconnectDrain: { time: 1, bytes: 1, concurrent: 1 },
    realtime: { origins: [], message: 1, idle: 1, duration: 1, ping: 1 },
    perTenant: { keys: 1, projects: 1, members: 1 }
  },
  state: { key: '', keep: 1, largest: 1, of_tenant: 2 ** 28, size: 2 ** 30 },
  tasks: {
    running: 1,
    waiting: 1,
    open: 1,
    of_tenant: 100,
    poll: { first: 1, most: 1 },
    deadline: 1,
    keep: 1,
    baseUrl: ''
  }
}

function config(hash: string, change: Partial<Settings> = {}): Config {
  return {
    file: 'gateway.yaml',
    hash,
    settings: { ...settings, ...change },
    channels: new Map(),
    simulated: [],
    models: new Map(),
    tenants: new Map(),
    keys: [],
    chain: [],
    alerts: undefined,
    telemetry: undefined,
    redacted: {},
    hidden: new Map(),
    named: new Map(),
    texts: [],
    folders: [],
    places: new Map(),
    warnings: []
  }
}

/** A reloader of which the test decides what the file says and when it has been read. */
function bench() {
  const metrics = new Metrics()
  const state = { current: config('first'), reads: [] as PromiseWithResolvers<Config>[], applied: [] as string[] }
  const reloader = new Reloader({
    current: () => state.current,
    read() {
      const reading = Promise.withResolvers<Config>()
      state.reads.push(reading)
      return reading.promise
    },
    look: async () => state.current,
    async apply(next) {
      if (next.hash === 'unbuildable')
        throw new Error('a chain needs exactly one plugin that selects the channel: add route')
      state.applied.push(next.hash)
      state.current = next
    },
    log: silentLog,
    metrics
  })
  const value = async (series: string): Promise<number> =>
    Number(new RegExp(`^${series} (.*)$`, 'm').exec((await metrics.expose()).text)?.[1])
  return { reloader, state, value }
}

/** Lets everything run that waits for nothing but its turn. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

t.test('a new file is taken over and the result is kept', async (t) => {
  const { reloader, state, value } = bench()
  t.equal(reloader.last, undefined)
  t.equal(await value('sluice_config_last_reload_successful'), 1, 'the file of the start counts as taken over')
  const reload = reloader.reload('SIGHUP')
  await turn()
  state.reads[0]!.resolve(config('second'))
  t.match(await reload, { ok: true, reason: 'SIGHUP', hash: 'second', problems: [] })
  t.same(state.applied, ['second'])
  t.equal(reloader.last, await reload)
  t.equal(await value('sluice_config_reloads_total\\{outcome="success"\\}'), 1)
})

t.test('reloads that are asked for while one runs become one, which reads the newest file', async (t) => {
  const { reloader, state } = bench()
  const first = reloader.reload('one')
  await turn()
  const [second, third] = [reloader.reload('two'), reloader.reload('three')]
  await turn()
  t.equal(state.reads.length, 1, 'nothing is read while another reload runs')
  state.reads[0]!.resolve(config('a'))
  t.match(await first, { hash: 'a', reason: 'one' })
  await turn()
  t.equal(state.reads.length, 2)
  state.reads[1]!.resolve(config('b'))
  t.match(await second, { hash: 'b', reason: 'two' })
  t.equal(await third, await second)
  t.same(state.applied, ['a', 'b'])
})

t.test('a file with problems changes nothing, and every problem is told with its place', async (t) => {
  const { reloader, state, value } = bench()
  const since = await value('sluice_config_last_reload_success_timestamp_seconds')
  const problems = [
    { place: 'gateway.yaml:3:5', message: 'unknown key "chanel", did you mean "channel"?' },
    { place: 'gateway.yaml:9:1', message: 'b' }
  ]
  const reload = reloader.reload('file changed')
  await turn()
  state.reads[0]!.reject(new ConfigError(problems))
  t.match(await reload, { ok: false, hash: 'first', problems })
  t.same(state.applied, [])
  t.equal(await value('sluice_config_last_reload_successful'), 0)
  t.equal(await value('sluice_config_last_reload_success_timestamp_seconds'), since)
  t.equal(await value('sluice_config_reloads_total\\{outcome="refused"\\}'), 1)
  const again = reloader.reload('file changed')
  await turn()
  state.reads[1]!.resolve(config('mended'))
  t.match(await again, { ok: true, hash: 'mended' }, 'a refused reload is not in the way of the next')
  t.equal(await value('sluice_config_last_reload_successful'), 1)
})

t.test('what is given up for a stop is no fault of the file, and nothing is read after it', async (t) => {
  const { reloader, state, value } = bench()
  const reloads = [reloader.reload('SIGHUP')]
  await turn()
  reloads.push(reloader.reload('file changed'))
  let closed = false
  const closing = reloader.close().then(() => (closed = true))
  await turn()
  t.notOk(closed, 'it waits for the reload under way')
  state.reads[0]!.reject(new Error('the gateway stops'))
  await closing
  reloads.push(reloader.reload('SIGHUP'))
  for (const reload of reloads) t.match(await reload, { ok: false, problems: [{ message: 'the gateway stops' }] })
  t.equal(state.reads.length, 1)
  t.equal(reloader.last, undefined)
  t.equal(await value('sluice_config_last_reload_successful'), 1)
})

t.test('a fault that was found before a stop is told', async (t) => {
  const { reloader, state } = bench()
  const reload = reloader.reload('SIGHUP')
  await turn()
  const closing = reloader.close()
  state.reads[0]!.reject(new ConfigError([{ place: 'gateway.yaml:9:1', message: 'b' }]))
  await closing
  t.equal(reloader.last, await reload)
})

t.test('what cannot be built is refused as well', async (t) => {
  const { reloader, state } = bench()
  const reload = reloader.reload('x')
  await turn()
  state.reads[0]!.resolve(config('unbuildable'))
  t.match(await reload, { ok: false, hash: 'first', problems: [{ place: 'gateway.yaml', message: /add route/ }] })
})

t.test('a change that needs a restart is refused by the name of the setting, without its value', async (t) => {
  const cases: [string[], Partial<Settings>][] = [
    [['listen.port'], { listen: { ...settings.listen, port: 8081 } }],
    [['listen.tls'], { listen: { ...settings.listen, tls: { cert: 'c', key: 'k' } } }],
    [['admin'], { admin: undefined }],
    [['admin.token'], { admin: { ...settings.admin!, token: 'hunter2' } }],
    [
      ['store.sqlite', 'store.durability'],
      { store: { ...settings.store, sqlite: '/other.db', durability: 'process' } }
    ],
    [['store.requests.age'], { store: { ...settings.store, requests: { age: 2, size: 1 } } }],
    [['limits.body_memory', 'limits.keep_alive'], { limits: { ...settings.limits, bodyMemory: 2, keepAlive: 2 } }]
  ]
  for (const [names, change] of cases) {
    const { reloader, state } = bench()
    const reload = reloader.reload('x')
    await turn()
    state.reads[0]!.resolve(config('next', change))
    const { ok, problems } = await reload
    t.notOk(ok)
    t.same(
      problems.map(({ message }) => message.split(':')[0]),
      names
    )
    t.notMatch(JSON.stringify(problems), /hunter2/)
    t.same(state.applied, [])
  }
})

t.test('another certificate follows a reload', async (t) => {
  const listen = { ...settings.listen, tls: { cert: 'c', key: 'k' } }
  const { reloader, state } = bench()
  state.current = config('first', { listen })
  const reload = reloader.reload('x')
  await turn()
  state.reads[0]!.resolve(config('next', { listen: { ...listen, tls: { cert: 'd', key: 'l' } } }))
  t.match(await reload, { ok: true, hash: 'next' })
})

t.test('limits that exchanges look up as they go follow a reload', async (t) => {
  const { reloader, state } = bench()
  const reload = reloader.reload('x')
  await turn()
  const limits = {
    ...settings.limits,
    jsonBody: 2,
    drainTimeout: 2,
    onDisconnect: 'abort' as const,
    disconnectDrain: { time: 2, bytes: 2, concurrent: 2 }
  }
  state.reads[0]!.resolve(config('next', { limits }))
  t.match(await reload, { ok: true, hash: 'next' })
})
