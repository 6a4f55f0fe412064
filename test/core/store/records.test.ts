// The request log and the key store on the embedded store.
import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import type { StoredKey } from '../../../core/store/keys.ts'
import type { RequestQuery, RequestRecord } from '../../../core/store/requests.ts'
import { openStore } from '../../../core/store/store.ts'
import type { Store } from '../../../core/store/store.ts'
import { verify } from '../../../core/store/verify.ts'
import { noon, query, record, reserve, scope, settle } from './sample.ts'

async function open(t: Test, now = Date.now): Promise<{ store: Store; file: string }> {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', now })
  t.teardown(() => store.close())
  return { store, file }
}

/** All pages of a listing. */
async function pages(store: Store, query: RequestQuery): Promise<RequestRecord[]> {
  const found: RequestRecord[] = []
  let cursor: string | null | undefined
  do {
    const { data, next } = await store.requests.list({ ...query, ...(cursor && { cursor }) })
    if (data.length > query.limit || (next !== null && data.length < query.limit))
      throw new Error('a page is full, or the last')
    found.push(...data)
    cursor = next
  } while (cursor !== null)
  return found
}

t.test('a record is listed as it was given, at once', async (t) => {
  const { store } = await open(t)
  const given = record({
    usage: { input: 3, cached_input: 1, cache_write: 0, output: 9, reasoning: 2, second: 1 },
    usage_source: 'partial',
    client_request_id: 'Ünï "code" 💶',
    attempts: [
      { channel: 'azure', status: 429, error_code: 'upstream_rate_limited', duration_ms: 4 },
      { channel: 'openai', duration_ms: 6.25 }
    ]
  })
  store.requests.append(given)
  t.same(await store.requests.list({ limit: 10 }), { data: [given], next: null })
  t.same(await store.requests.list({ limit: 10, request_id: given.request_id }), { data: [given], next: null })
  t.same(await store.requests.list({ limit: 10, request_id: randomUUIDv7() }), { data: [], next: null })
  t.same(
    await store.requests.list({ limit: 10, request_id: given.request_id, tenant: 'other' }),
    { data: [], next: null },
    'a tenant sees its own'
  )
})

t.test('a record goes in the transaction of the settlement made in the same turn', async (t) => {
  const { store, file } = await open(t)
  const reservation = reserve(store.ledger, [scope('key', 'laptop')], 9n)
  await reservation.durable
  const { commits } = store.health()
  await settle(store, reservation, 4)
  t.equal(store.health().commits, commits + 1)
  await store.flush()
  t.match(query(file, 'SELECT (SELECT count(*) FROM journal) AS ends, (SELECT count(*) FROM request) AS records'), [
    { ends: 1n, records: 1n }
  ])
})

t.test('conditions hold together, pages follow each other, newest first, over many blocks', async (t) => {
  let now = noon
  const { store } = await open(t, () => now)
  const all: RequestRecord[] = []
  for (let i = 0; i < 5000; i++) {
    if (i % 100 === 0) {
      now += 60_000
      await store.requests.list({ limit: 1 })
    }
    const given = record({
      // Some requests took long: they arrived before others that were written earlier.
      time: new Date(now - (i % 9 === 0 ? 600_000 : 0)).toISOString(),
      tenant: i % 50 === 0 ? null : `t${i % 3}`,
      key: `k${i % 97}`,
      model: i < 1500 ? 'old' : i === 3000 ? 'rare' : 'new'
    })
    all.unshift(given)
    store.requests.append(given)
  }
  const optional = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
    fc.option(arbitrary, { nil: undefined })
  const queries = fc.record({
    tenant: optional(fc.constantFrom('t0', 't1', 't9')),
    key: optional(fc.constantFrom('k0', 'k1', 'k96', 'k97')),
    model: optional(fc.constantFrom('old', 'new', 'rare')),
    since: optional(
      fc.integer({ min: -20, max: 55 }).map((minutes) => new Date(noon + minutes * 60_000).toISOString())
    ),
    limit: fc.constantFrom(7, 100, 1000)
  })
  const ids = (records: RequestRecord[]): string => records.map(({ request_id }) => request_id).join(' ')
  await fc.assert(
    fc.asyncProperty(queries, async (wanted) => {
      const { tenant, key, model, since, limit } = wanted
      const expected = all.filter(
        (one) =>
          (tenant ?? one.tenant) === one.tenant &&
          (key ?? one.key) === one.key &&
          (model ?? one.model) === one.model &&
          (since === undefined || one.time >= since)
      )
      const given = Object.fromEntries(
        Object.entries(wanted).filter(([, value]) => value !== undefined)
      ) as unknown as RequestQuery
      if (expected.length / limit > 30) return
      if (ids(await pages(store, given)) !== ids(expected))
        throw new Error(`not the ${expected.length} records expected`)
    }),
    { numRuns: 60 }
  )
})

t.test('a page that new records push down still continues where it ended', async (t) => {
  const { store } = await open(t)
  const given = Array.from({ length: 6 }, () => record())
  for (const one of given.slice(0, 4)) store.requests.append(one)
  const first = await store.requests.list({ limit: 2, tenant: 'acme' })
  for (const one of given.slice(4)) store.requests.append(one)
  const second = await store.requests.list({ limit: 2, tenant: 'acme', cursor: first.next! })
  t.same(
    [...first.data, ...second.data].map(({ request_id }) => request_id),
    given
      .slice(0, 4)
      .reverse()
      .map(({ request_id }) => request_id)
  )
  t.equal(second.next, null)
})

t.test('what a listing cannot take is refused, naming the field', async (t) => {
  const { store } = await open(t)
  t.same(await store.requests.list({ limit: 10, tenant: "' OR 1=1 --" }), { data: [], next: null })
  for (const [param, bad] of Object.entries({
    since: { limit: 1, since: 'yesterday' },
    cursor: { limit: 1, cursor: '1; DROP' },
    limit: { limit: 1001 }
  })) {
    await t.rejects(store.requests.list(bad), { code: 'invalid_field', details: { param } })
  }
  await t.rejects(store.requests.list({ limit: 0.5 }), { code: 'invalid_field' })
})

t.test('a record that is told twice is kept once, and one with odd values is kept too', async (t) => {
  const { store, file } = await open(t)
  const odd = record({ model: 'x\u0000\ud800y', time: 'never', tenant: null, key: null })
  store.requests.append(odd)
  store.requests.append(odd)
  const { data } = await store.requests.list({ limit: 10 })
  t.equal(data.length, 1)
  t.equal(data[0]!.request_id, odd.request_id)
  t.same(verify(file), [], 'and its checksum is right')
})

function key(name: string, more: Partial<StoredKey> = {}): StoredKey {
  return {
    name,
    sha256: randomBytes(32),
    hint: 'sk-ab…9f',
    tenant: 'acme',
    models: ['*'],
    endpoints: ['chat'],
    limits: { rpm: 5 },
    created: noon,
    ...more
  }
}

t.test('a key is found by its hash at once and after a restart, with all it was given', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', now: () => noon + 5 })
  const plain = key('plain', { created: noon - 1 })
  const full = key('full', {
    project: 'web',
    member: 'alice',
    budget: { limit: 2n ** 60n, per: 'day' },
    expires: noon + 1,
    limits: { rps: 1, concurrency: 2 }
  })
  const writing = Promise.all([store.keys.create(plain), store.keys.create(full)])
  t.equal(store.keys.find(Buffer.from(full.sha256)), full, 'before it is on disk')
  t.equal(store.keys.find(randomBytes(32)), undefined)
  await writing
  t.equal(await store.keys.revoke('plain'), true)
  t.equal(await store.keys.revoke('plain'), false)
  t.equal(await store.keys.revoke('nobody'), false)
  t.equal(store.keys.find(plain.sha256)!.revoked, noon + 5, 'a revoked key is known as such')
  await t.rejects(store.keys.create(key('full')), /full exists already: choose another name/)
  await t.rejects(
    store.keys.create(key('other', { sha256: full.sha256 })),
    /full exists already: choose another secret/
  )
  const before = store.keys.all()
  await store.close()
  const again = await openStore({ file, durability: 'process' })
  const clean = (keys: readonly StoredKey[]): unknown =>
    JSON.parse(JSON.stringify(keys, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value)))
  t.same(clean(again.keys.all()), clean(before))
  t.equal(again.keys.find(full.sha256)!.budget!.limit, 2n ** 60n)
  await again.close()
})

t.test('a store in memory works as one in a file and leaves nothing behind', async (t) => {
  const store = await openStore({ file: ':memory:', durability: 'process' })
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4)
  t.equal((await store.requests.list({ limit: 5 })).data.length, 1)
  await store.close()
})
