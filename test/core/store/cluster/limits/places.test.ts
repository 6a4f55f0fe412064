// Where Redis may be: behind TLS and a password, behind sentinels, and in a cluster. Nothing that is told has a secret.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import type { LimitSet, Rates } from '../../../../../core/catalogue/caller.ts'
import { openSharedLimits } from '../../../../../core/store/cluster/limits/open.ts'
import type { SharedLimits } from '../../../../../core/store/cluster/limits/limits.ts'
import type { RedisOptions } from '../../../../../core/store/cluster/limits/options.ts'
import { placeOf } from '../../../../../core/store/cluster/redis/address.ts'
import { createLogger, silentLog } from '../../../../../core/telling/log.ts'
import { makeCertificate } from '../../../../kit/certificate.ts'
import { redisOptions, sharedLimits } from '../../../../kit/limits.ts'
import { eventually } from '../../../../kit/probe.ts'
import { RedisServer, redisMissing } from '../../../../kit/redis.ts'

const skip = redisMissing

function set(home: string, rates: Rates, id = `key:of ${home}`): LimitSet {
  return { id, home, level: 'key', scope: id, models: null, rates }
}

/** A limiter that cannot reach its Redis; resolves with why, and all that was logged. */
async function failing(t: Test, options: Partial<RedisOptions>): Promise<{ reason: string; log: string }> {
  let log = ''
  const logger = createLogger({ level: 'debug', write: (line) => void (log += line) })
  const limits = await openSharedLimits({ ...redisOptions, ...options }, 'share', logger)
  t.teardown(() => limits.close())
  await eventually(() => log !== '', 20_000)
  t.equal(limits.health.usable, false)
  return { reason: limits.health.reason!, log }
}

void t.test('an address is read, and none is repeated in an error', (t) => {
  t.match(placeOf({ url: 'rediss://app:p%40ss@[::1]:7000/3' }), {
    server: { host: '::1', port: 7000, username: 'app', password: 'p@ss', database: 3, tls: true },
    cluster: false
  })
  t.match(placeOf({ url: 'redis://mymaster', sentinels: ['redis://a', 'rediss://:x@b:1'] }), {
    server: { host: 'mymaster', port: 6379, password: undefined, database: 0, tls: false },
    sentinels: [
      { host: 'a', port: 26379 },
      { host: 'b', port: 1, password: 'x', tls: true }
    ]
  })
  for (const url of [
    'http://u:sesame@host',
    'redis:///sesame',
    'redis://u:sesame@host/db',
    'redis://u:sesame@host:port',
    'redis://u:sesame%@host',
    'redis://u:sesame@host?x=sesame',
    'sesame'
  ]) {
    for (const given of [{ url }, { url: 'redis://m', sentinels: [url] }]) {
      let message = ''
      try {
        placeOf(given)
      } catch (error) {
        message = (error as Error).message
      }
      t.match(message, 'sentinels' in given ? /sentinels/ : /url/)
      t.notMatch(message, /sesame/)
    }
  }
  t.throws(() => placeOf({ url: 'redis://a', cluster: true, sentinels: ['redis://b'] }), /exclude each other/)
  t.throws(() => placeOf({ url: 'redis://a/1', cluster: true }), /no databases/)
  t.throws(() => placeOf({ url: 'redis://a', sentinels: [] }), /empty/)
  t.end()
})

void t.test('a password is told to nobody but Redis', { skip }, async (t) => {
  const redis = await RedisServer.start(t, '--requirepass', 'sesame')
  const at = `127.0.0.1:${redis.port}`
  await sharedLimits(t, { url: `redis://:sesame@${at}/2` })
  for (const [url, expected] of [
    [`redis://:wrong-sesame@${at}`, 'WRONGPASS'],
    [`redis://${at}`, 'NOAUTH'],
    [`redis://:sesame@${at}/99`, 'ERR']
  ] as const) {
    const { reason, log } = await failing(t, { url })
    t.equal(reason, expected)
    t.notMatch(log, /sesame/)
  }
})

void t.test('a user without a password says who it is', { skip }, async (t) => {
  const redis = await RedisServer.start(t)
  await redis.run(['ACL', 'SETUSER', 'app', 'on', 'nopass', '~*', '&*', '+@all'])
  await redis.run(['ACL', 'SETUSER', 'default', 'off'])
  const at = `127.0.0.1:${redis.port}`
  const limits = await sharedLimits(t, { url: `redis://app@${at}` })
  t.match(await limits.decide([set('tenant:a', { rpm: 5 })], 0), { admitted: true })
  t.equal((await failing(t, { url: `redis://${at}` })).reason, 'NOAUTH')
})

void t.test('a server behind TLS has to be the one that was named', { skip }, async (t) => {
  const right = makeCertificate(t)
  const wrong = makeCertificate(t, 'elsewhere.example')
  const start = ({ cert, key }: { cert: string; key: string }): Promise<RedisServer> => {
    const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert]
    return RedisServer.startTls(t, ...files, '--tls-auth-clients', 'no')
  }
  const good = await start(right)
  const url = `rediss://localhost:${good.port}`
  const limits = await sharedLimits(t, { url, ca: right.ca })
  t.match(await limits.decide([set('tenant:a', { rpm: 5 })], 0), { admitted: true, states: [{ remaining: 4 }] })
  t.match((await failing(t, { url })).reason, /SELF_SIGNED/)
  const bad = await start(wrong)
  const elsewhere = { url: `rediss://localhost:${bad.port}`, ca: wrong.ca }
  t.equal((await failing(t, elsewhere)).reason, 'ERR_TLS_CERT_ALTNAME_INVALID')
})

void t.test('sentinels say where the master is, also after it has died', { skip }, async (t) => {
  const master = await RedisServer.start(t)
  const replica = await RedisServer.start(
    t,
    '--replicaof',
    '127.0.0.1',
    String(master.port),
    '--repl-diskless-sync-delay',
    '0'
  )
  await eventually(
    async () => String(await replica.run(['INFO', 'replication'])).includes('master_link_status:up'),
    20_000
  )
  const file = join(t.testdir(), 'sentinel.conf')
  writeFileSync(
    file,
    `sentinel monitor main 127.0.0.1 ${master.port} 1\nsentinel down-after-milliseconds main 500\n` +
      'sentinel failover-timeout main 3000\n'
  )
  const sentinel = await RedisServer.startSentinel(t, file)
  const dead = await RedisServer.start(t)
  await dead.kill()
  const limits = await sharedLimits(t, { url: 'redis://main', sentinels: [dead.url, sentinel.url] })
  const key = set('tenant:a', { concurrency: 5 })
  t.match(await limits.decide([key], 0), { admitted: true, states: [{ remaining: 4 }] })
  t.equal((await failing(t, { url: 'redis://other', sentinels: [sentinel.url] })).reason, 'NOMASTER')
  await eventually(async () => String(await sentinel.run(['INFO', 'sentinel'])).includes('slaves=1'), 20_000)
  await master.kill()
  await eventually(() => !limits.health.usable)
  await eventually(() => limits.health.usable, 30_000)
  t.match(await limits.decide([key], 0), { states: [{ remaining: 3 }] }, 'the new master was told of the slot')
  t.match(await replica.run(['ROLE']), ['master'])
})

void t.test('closing ends a connection that is being made, and asks no further sentinel', async (t) => {
  let open = 0
  const counts: number[] = [0, 0]
  const silent = counts.map((_, i) =>
    createServer((socket) => {
      open++
      counts[i]!++
      socket.on('error', () => {}).on('close', () => void open--)
      socket.resume()
    }).listen(0, '127.0.0.1')
  )
  await Promise.all(silent.map((one) => once(one, 'listening')))
  t.teardown(() => silent.forEach((one) => one.close()))
  const [one, two] = silent.map((server) => `redis://127.0.0.1:${(server.address() as AddressInfo).port}`)
  for (const place of [{ url: `${one}/1` }, { url: 'redis://main', sentinels: [one!, two!] }]) {
    const limits = await openSharedLimits({ ...redisOptions, connect_timeout: 600_000, ...place }, 'share', silentLog)
    await eventually(() => open === 1, 20_000)
    await limits.close()
    await eventually(() => open === 0, 20_000)
  }
  t.same(counts, [2, 0])
})

void t.test('in a cluster the limits of one home are in one place', { skip }, async (t) => {
  const settings = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000']
  const servers: RedisServer[] = []
  for (let at = 0; at < 3; at++) {
    servers.push(await RedisServer.start(t, ...settings))
  }
  const bounds = [0, 5461, 10_922, 16_384]
  for (const [at, server] of servers.entries()) {
    await server.run(['CLUSTER', 'ADDSLOTSRANGE', String(bounds[at]), String(bounds[at + 1]! - 1)])
    await server.run(['CLUSTER', 'MEET', '127.0.0.1', String(servers[0]!.port)])
  }
  for (const server of servers)
    await eventually(async () => String(await server.run(['CLUSTER', 'INFO'])).includes('cluster_state:ok'), 30_000)
  const open = (): Promise<SharedLimits> => sharedLimits(t, { url: servers[1]!.url, cluster: true })
  const [first, second] = [await open(), await open()]
  const homes = Array.from({ length: 12 }, (_, i) => `tenant:${i}`)
  for (const home of homes) {
    const sets = [set(home, { rpm: 1000, concurrency: 9 }, home), set(home, { tpm: 6000, rps: 100, concurrency: 3 })]
    const decision = await first.decide(sets, 3000)
    if (!decision.admitted) throw new Error('refused')
    t.match(await second.decide(sets, 3000), { admitted: true })
    t.match(await second.decide(sets, 3000), { admitted: false, refusedBy: { name: 'tpm' } })
    decision.lease.release(0)
    await eventually(async () => (await second.look(sets, 1)).states[0]!.remaining === 8)
  }
  const sizes = await Promise.all(servers.map(async (server) => (await server.run(['DBSIZE'])) as number))
  t.ok(
    sizes.every((size) => size > 0),
    `keys are on all servers: ${sizes}`
  )
  const slot = (await servers[0]!.run(['CLUSTER', 'KEYSLOT', 'sluice:nodes'])) as number
  const { url } = servers[bounds.findLastIndex((bound) => bound <= slot)]!
  await t.test('one of its servers that is asked as if it were alone answers for its own keys', async (t) => {
    const alone = await sharedLimits(t, { url })
    const { since } = alone.health
    for (const home of homes) t.ok((await alone.decide([set(home, { rpm: 5 })], 0)).admitted)
    t.match(alone.health, { usable: true, since }, 'all others are decided by shares, and it does not come and go')
  })
  await servers[0]!.kill()
  await Promise.all(homes.map(async (home) => first.decide([set(home, { rpm: 5 })], 0)))
  t.pass('every request is decided while a server is gone')
})
