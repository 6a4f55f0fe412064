// Where gateway.yaml says that the store is: a SQLite file, or PostgreSQL and Redis, and everything that is no place.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readAddress } from '../../config/address.ts'
import { loadConfig } from '../../config/load.ts'
import { folderOf, shownPlace } from '../../core/catalogue/store-place.ts'
import { fixedChanges } from '../../core/program/fixed-settings.ts'
import { makeCertificate } from '../kit/certificate.ts'
import { plugins } from './plugins.ts'
import type { Loaded } from '../../config/load.ts'
import type { Config } from '../../core/catalogue/settings.ts'

const simulatorUrl = new URL('http://127.0.0.1:41234/v1')
const folder = t.testdir()
const file = join(folder, 'gateway.yaml')
const env = { DATABASE_URL: 'postgres://sluice:hunter2@db.internal/book', REDIS_URL: 'redis://:hunter3@cache.internal' }

function load(store: string): Loaded {
  const rest = `channels: { demo: { protocol: simulator, models: { demo: demo } } }\nmodels: { demo: { price: free } }\nchain: [auth]\n`
  writeFileSync(file, `${rest}store: ${store}\n`)
  return loadConfig(file, { env, plugins, simulatorUrl })
}

function loaded(store: string): Config {
  const { config, problems } = load(store)
  if (!config) throw new Error(problems.map(({ place, message }) => `${place} ${message}`).join('\n'))
  return config
}

function messages(store: string): string[] {
  const found = (load(store).problems ?? []).map(({ place, message }) => `${place.replace(file, '')} ${message}`)
  t.notMatch(found.join('\n'), /hunter/, 'no problem shows a password')
  return found
}

t.test('PostgreSQL and Redis are named by two addresses, and the rest has defaults', async (t) => {
  const config = loaded('{ postgres: "${DATABASE_URL}", redis: "${REDIS_URL}" }')
  t.match(config.settings.store, {
    sqlite: undefined,
    postgres: { url: env.DATABASE_URL, listen_url: undefined, shown: 'postgres://db.internal:5432/book' },
    redis: { url: env.REDIS_URL, cluster: false, prefix: 'sluice', command_timeout: 100, connect_timeout: 2000 },
    on_limits_unavailable: 'share',
    folder: join(folder, 'data'),
    durability: 'power',
    requests: { age: 30 * 86_400_000 },
    backups: undefined
  })
  t.equal(shownPlace(config.settings.store), 'postgres://db.internal:5432/book')
  t.equal(folderOf(config.settings.store), join(folder, 'data'))
  t.same(
    readAddress(file, env)?.settings.store,
    { postgres: { shown: 'postgres://db.internal:5432/book' } },
    'a file with problems elsewhere names it too'
  )
  t.notMatch(JSON.stringify(config.redacted), /hunter/)
})

t.test('a journal in segments has no bounds', (t) => {
  t.match(loaded('{ journal: { form: segments } }').settings.store.journal, { form: 'segments' })
  t.equal(loaded('{ journal: { age: 1d } }').settings.store.journal.form, undefined)
  t.match(messages('{ journal: { form: segments, age: 1d, size: 1GiB } }'), [
    /^:4:37 store.journal.age: is for entries in a database, and those in segments stay for ever: remove this$/,
    /^:4:46 store.journal.size: /
  ])
  t.match(messages('{ journal: { form: file } }'), [/store.journal.form: .*database.*segments/])
  t.end()
})

t.test('each may be a map, with what else is known of it', async (t) => {
  const { ca } = makeCertificate(t, 'cache.internal')
  writeFileSync(join(folder, 'ca.pem'), ca)
  const { settings, redacted, warnings } = loaded(`{
    postgres: { url: "postgresql://sluice:hunter2@pooler:6432/book?sslmode=require", listen_url: "\${DATABASE_URL}" },
    redis: { url: "rediss://user:hunter3@master-name/2", sentinels: ["redis://one", "redis://two:26380"], ca: ca.pem, prefix: a.b },
    on_limits_unavailable: refuse, folder: /var/lib/sluice }`)
  t.match(settings.store, {
    postgres: { listen_url: env.DATABASE_URL, shown: 'postgres://pooler:6432/book' },
    redis: { sentinels: ['redis://one', 'redis://two:26380'], ca, prefix: 'a.b' },
    on_limits_unavailable: 'refuse',
    folder: '/var/lib/sluice'
  })
  t.notMatch(JSON.stringify(redacted), /hunter/, 'the addresses are secrets')
  t.match(warnings.map(({ message }) => message).join('\n'), /store.postgres.url: a secret in clear/)
})

t.test('one that is missing, and what belongs to the other kind of store, are problems that say why', async (t) => {
  t.same(messages('{ postgres: "${DATABASE_URL}" }'), [
    ':4:10 store.postgres: needs "redis" too: gateways that share a store keep their rates and slots there: say "redis: ${REDIS_URL}"'
  ])
  t.match(messages('{ redis: "${REDIS_URL}", folder: here, on_limits_unavailable: allow }'), [
    /^:4:10 store.redis: keeps the limits of many gateways, .*: remove this, or name "postgres" too$/,
    /store.folder: is for a store in PostgreSQL, .*: remove this$/,
    /store.on_limits_unavailable: is about Redis, .*: remove this$/
  ])
  t.match(
    messages(
      '{ sqlite: x.db, postgres: "${DATABASE_URL}", redis: "${REDIS_URL}", journal: { age: 1d }, backups: { to: b } }'
    ),
    [
      /^:4:10 store.sqlite: a store is in a file of this machine or in PostgreSQL: remove one of the two$/,
      /store.journal: nothing of the journal is sealed in PostgreSQL, where all of it stays: remove this$/,
      /store.backups: makes copies of a SQLite file, .* pg_dump\)$/
    ]
  )
  t.match(messages('{ postgres: "${DATABASE_URL}", redis: "${REDIS_URL}", durability: deferred }'), [
    /store.durability: must not be deferred where the store is in PostgreSQL, .*: say power or process$/
  ])
})

t.test('an address that cannot be read is shown without its password, with its place and what is right', async (t) => {
  const wrong = (postgres: string, redis = '"${REDIS_URL}"'): string[] =>
    messages(`{ postgres: ${postgres}, redis: ${redis} }`)
  t.same(wrong('"mysql://root:hunter2@db/book"'), [
    ':4:20 store.postgres: the URL of PostgreSQL must be like postgres://user:password@host:5432/database, and not mysql://db/book'
  ])
  t.same(wrong('"postgres://sluice:hunter2/x@db/book"'), [
    ':4:20 store.postgres: the URL of PostgreSQL must be like postgres://user:password@host:5432/database'
  ])
  t.match(wrong('{ url: "${DATABASE_URL}", listen_url: "postgres://db/book" }'), [
    /^:4:58 store.postgres.listen_url: the URL of PostgreSQL names no user: .*, and not postgres:\/\/db\/book$/
  ])
  t.match(wrong('"postgres://a:hunter2@db/book?sslmode=verify-full&sslrootcert=/nowhere.pem"'), [
    /store.postgres: sslrootcert in the URL of PostgreSQL cannot be read: ENOENT/
  ])
  t.match(wrong('"${DATABASE_URL}"', '"http://:hunter3@cache:6379"'), [
    /store.redis: url has to be like redis:.*, and not http:\/\/cache:6379\/$/
  ])
  t.match(wrong('"${DATABASE_URL}"', '{ url: "redis://cache", cluster: true, sentinels: ["redis://one"] }'), [
    /store.redis: sentinels and a cluster exclude each other: leave one out$/
  ])
  t.match(wrong('"${DATABASE_URL}"', '{ url: "redis://cache", ca: none.pem }'), [/store.redis.ca: .*none.pem: /])
  t.match(messages('{ postgres: "${NO_SUCH_URL}", redis: "${REDIS_URL}" }'), [
    /the environment variable NO_SUCH_URL is not set/
  ])
})

t.test('another place needs a restart, and its members are not named one by one', async (t) => {
  const [before, after, there] = [
    loaded('{ postgres: "${DATABASE_URL}", redis: "${REDIS_URL}" }'),
    loaded('{ postgres: "postgres://a@other/book", redis: { url: "${REDIS_URL}", prefix: b } }'),
    loaded('{}')
  ]
  t.same(fixedChanges(before.settings, after.settings), ['store.postgres', 'store.redis'])
  t.same(fixedChanges(there.settings, before.settings).sort(), [
    'store.folder',
    'store.on_limits_unavailable',
    'store.postgres',
    'store.redis',
    'store.sqlite'
  ])
})
