// Reads from the section `store` of gateway.yaml where the store is: in a SQLite file, or in PostgreSQL and Redis.
import { resolve } from 'node:path'
import type { NamedPlace, SharedPlace, StorePlace } from '../../core/catalogue/store-place.ts'
import { readAddress } from '../../core/store/cluster/database/address.ts'
import { missingPackage as missingDatabasePackage } from '../../core/store/cluster/database/package.ts'
import { placeOf } from '../../core/store/cluster/redis/address.ts'
import { missingPackage as missingRedisPackage } from '../../core/store/cluster/redis/package.ts'
import { redisShape } from '../../core/store/cluster/limits/options.ts'
import { checkerOf } from '../../core/options/schema-check.ts'
import type { OptionValue } from '../../core/options/schema.ts'
import type { Certificates } from './certificates.ts'
import type { Path, Report } from '../report.ts'
import type { storeShape } from './store.ts'

type Entry = OptionValue<typeof storeShape>

/** What a store in PostgreSQL has no use for, and why. */
const ofFileAlone = {
  sqlite: 'a store is in a file of this machine or in PostgreSQL: remove one of the two',
  journal: 'nothing of the journal is sealed in PostgreSQL, where all of it stays: remove this',
  backups:
    'makes copies of a SQLite file, and the store is in PostgreSQL: remove this, and back that up (pg_basebackup with archived WAL, or pg_dump)'
} as const

/** What a store in a file has no use for, and why. */
const ofSharedAlone = {
  redis:
    'keeps the limits of many gateways, and a store in a SQLite file is of one, which has them in memory: remove this, or name "postgres" too',
  on_limits_unavailable: 'is about Redis, which a store in a SQLite file does not have: remove this',
  folder: 'is for a store in PostgreSQL, and what belongs to a SQLite file is beside it: remove this'
} as const

/** What a journal in segments has no use for, and why. */
const ofDatabaseAlone = {
  'journal.age': 'is for entries in a database, and those in segments stay for ever: remove this',
  'journal.size': 'is for entries in a database, and those in segments stay for ever: remove this'
} as const

/** Where the store is; undefined when that is faulty, which is reported. */
export function readPlace(
  { sqlite, postgres: book, redis: limiter, on_limits_unavailable, folder, durability, journal }: Entry,
  certificates: Certificates,
  report: Report
): StorePlace | undefined {
  if (book === undefined) {
    refuse(ofSharedAlone, report)
    if (journal.form === 'segments') refuse(ofDatabaseAlone, report)
    return { sqlite: resolve(report.folder(['store', 'sqlite']), sqlite) }
  }
  refuse(ofFileAlone, report)
  if (durability === 'deferred')
    report.value(
      ['store', 'durability'],
      'must not be deferred where the store is in PostgreSQL, which decides and writes in one step: say power or process'
    )
  const postgres = typeof book === 'string' ? { url: book } : book
  const at = ['store', 'postgres']
  const shown = readDatabase(typeof book === 'string' ? at : [...at, 'url'], postgres.url, report)
  if (postgres.listen_url !== undefined) readDatabase([...at, 'listen_url'], postgres.listen_url, report)
  needPackage('postgres', missingDatabasePackage(), report)
  if (limiter === undefined) {
    report.key(
      ['store', 'postgres'],
      'needs "redis" too: gateways that share a store keep their rates and slots there: say "redis: ${REDIS_URL}"'
    )
    return undefined
  }
  const redis = readRedis(limiter, certificates, report)
  if (shown === undefined || !redis || !report.sound('store')) return undefined
  return {
    postgres: { url: postgres.url, listen_url: postgres.listen_url, shown },
    redis,
    on_limits_unavailable,
    folder: resolve(report.folder(['store', 'folder']), folder)
  }
}

/** What names the store of a file that may have problems; undefined when its URL cannot be read. */
export function namedPlace({ sqlite, postgres }: Entry, folder: string): NamedPlace | undefined {
  if (postgres === undefined) return { sqlite: resolve(folder, sqlite) }
  try {
    return { postgres: { shown: shownOf(typeof postgres === 'string' ? postgres : postgres.url) } }
  } catch {
    return undefined
  }
}

/** @throws Error that says what is wrong with the URL, without repeating it */
function shownOf(url: string): string {
  return `postgres://${readAddress(url).shown}`
}

function refuse(useless: Readonly<Record<string, string>>, report: Report): void {
  for (const [name, why] of Object.entries(useless))
    if (report.written(['store', ...name.split('.')])) report.key(['store', ...name.split('.')], why)
}

function needPackage(name: 'postgres' | 'redis', command: string | undefined, report: Report): void {
  if (command === undefined) return
  report.key(['store', name], `needs a package that is not installed: run \`${command}\` in the folder of the gateway`)
}

/** How a database is shown. */
function readDatabase(path: Path, url: string, report: Report): string | undefined {
  try {
    return shownOf(url)
  } catch (error) {
    report.value(path, `${(error as Error).message}${withoutSecrets(url)}`)
    return undefined
  }
}

/** A URL for a message, without what may be secret in it; nothing when that cannot be told. */
function withoutSecrets(text: string): string {
  const url = URL.parse(text)
  const isPlain = url !== null && url.host !== '' && !/@/.test(`${url.pathname}${url.search}${url.hash}`)
  return isPlain ? `, and not ${url.protocol}//${url.host}${url.pathname}` : ''
}

const withDefaults = checkerOf(redisShape.properties, ['url'])

function readRedis(
  entry: NonNullable<Entry['redis']>,
  certificates: Certificates,
  report: Report
): SharedPlace['redis'] | undefined {
  needPackage('redis', missingRedisPackage(), report)
  const { ca: file, ...redis } = typeof entry === 'string' ? withDefaults({ url: entry }).value : entry
  const ca = file === undefined ? undefined : certificates.authorities(['store', 'redis', 'ca'], file)
  try {
    placeOf(redis)
  } catch (error) {
    const message = (error as Error).message.replace('Redis: ', '')
    const shown = message.startsWith('url') ? withoutSecrets(redis.url) : ''
    report.value(['store', 'redis'], `${message}${shown}`)
    return undefined
  }
  return { ...redis, ca }
}
