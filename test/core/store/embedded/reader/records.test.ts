// The request log and the key store on the embedded store.
import { randomUUIDv7 } from 'node:crypto'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { auditMembers, changeOf, documentKind } from '../../../../../core/store/documents.ts'
import type { AuditQuery } from '../../../../../core/store/documents.ts'
import type { Bounds, RequestQuery, RequestRecord } from '../../../../../core/store/requests.ts'
import { searchRequests } from '../../../../../core/store/embedded/reader/request-search.ts'
import { openDatabase, openForReading } from '../../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../../core/store/store.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { noon, query, record, reserve, scope, settle } from '../sample.ts'

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
  const { store, file } = await open(t, () => now)
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
      model: i < 1500 ? 'old' : i === 3000 ? 'rare' : 'new',
      project: i % 4 === 0 ? null : `p${i % 5}`,
      member: i % 7 === 0 ? 'eve' : null,
      endpoint: i % 11 === 0 ? 'images.edits' : 'chat',
      // Tenant t1 has no failure, though each block has both.
      status: i % 3 === 1 ? 200 : [200, 200, 404, 429, 503][i % 5]!,
      outcome: i % 3 === 1 || i % 5 < 2 ? 'completed' : 'failed',
      error_code: i % 3 === 1 || i % 5 < 2 ? null : 'upstream_bad_response',
      channel: 'a',
      attempts: (i % 13 === 0 ? ['b', 'a'] : i % 2 === 0 ? ['a'] : []).map((channel) => ({ channel, duration_ms: 1 })),
      cost_nano: String(i * 1_000_000),
      duration_ms: (i % 100) * 10.1,
      ...(i % 3 === 0 && { tags: { team: `team ${i % 2}`, env: 'prod' } })
    })
    all.unshift(given)
    store.requests.append(given)
  }
  // Most are left out, as few records fit many conditions.
  const optional = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
    fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary })
  const texts = {
    tenant: optional(fc.constantFrom('t0', 't1', 't9')),
    key: optional(fc.constantFrom('k0', 'k1', 'k96', 'k97')),
    model: optional(fc.constantFrom('old', 'new', 'rare')),
    project: optional(fc.constantFrom('p0', 'p4', 'p5')),
    member: optional(fc.constantFrom('eve', 'adam')),
    endpoint: optional(fc.constantFrom('chat', 'images.edits')),
    channel: optional(fc.constantFrom('a', 'b', 'c')),
    code: optional(fc.constantFrom('upstream_bad_response', 'other')),
    outcome: optional(fc.constantFrom('completed', 'failed')),
    tag: optional(fc.constantFrom('team', 'env=prod', 'team=team 1', 'tea', 'env=pro'))
  }
  const statuses = fc.constantFrom({ from: 200, to: 200 }, { from: 400, to: 499 }, { from: 200, to: 599 })
  const queries = fc.record({
    ...texts,
    not: fc.record({ ...texts, status: optional(statuses) }),
    time: optional(range(-20, 55, (minutes) => noon + minutes * 60_000)),
    status: optional(range(200, 503, (status) => status)),
    cost: optional(range(0, 4000, (cost) => String(cost * 1_000_000))),
    duration: optional(range(0, 100, (duration) => duration * 10.1)),
    limit: fc.constantFrom(7, 100, 1000)
  })
  const ids = (records: RequestRecord[]): string => records.map(({ request_id }) => request_id).join(' ')
  await fc.assert(
    fc.asyncProperty(queries, async (wanted) => {
      const { limit, not } = wanted
      const within = ({ from, to }: Bounds<number | string> = {}, value: number): boolean =>
        Number(from ?? -Infinity) <= value && value <= Number(to ?? Infinity)
      const has = (one: RequestRecord, name: keyof typeof texts, value: string): boolean => {
        if (name === 'channel')
          return one.attempts.length === 0 ? value === 'a' : one.attempts.some(({ channel }) => channel === value)
        if (name === 'tag')
          return Object.entries(one.tags ?? {}).some(([tag, of]) => value === tag || value === `${tag}=${of}`)
        return one[name === 'code' ? 'error_code' : name] === value
      }
      const names = Object.keys(texts) as (keyof typeof texts)[]
      const expected = all.filter(
        (one) =>
          names.every((name) => wanted[name] === undefined || has(one, name, wanted[name])) &&
          names.every((name) => not[name] === undefined || !has(one, name, not[name])) &&
          !(not.status && within(not.status, one.status)) &&
          within(wanted.time, Date.parse(one.time)) &&
          within(wanted.status, one.status) &&
          within(wanted.cost, Number(one.cost_nano)) &&
          within(wanted.duration, one.duration_ms)
      )
      const set = (some: object): object =>
        Object.fromEntries(Object.entries(some).filter(([, value]) => value !== undefined))
      const given = { ...set(wanted), not: set(not) } as RequestQuery
      if (expected.length / limit > 30) return
      if (ids(await pages(store, given)) !== ids(expected))
        throw new Error(`not the ${expected.length} records expected`)
    }),
    { numRuns: 400 }
  )
  const some: RequestQuery[] = [
    { limit: 1000, tag: 'team=team 1', status: { from: 400 } },
    { limit: 1000, tenant: 't1', outcome: 'failed' },
    { limit: 1000, channel: 'b', cost: { to: '3000000000' }, time: { from: noon + 600_000 } },
    { limit: 1000, project: 'p4', duration: { from: 900 } },
    { limit: 1000, member: 'eve', not: { model: 'new', tag: 'team=team 1', status: { from: 400, to: 499 } } }
  ]
  const found = async (): Promise<string[]> => Promise.all(some.map(async (query) => ids(await pages(store, query))))
  const before = await found()
  await store.flush()
  const database = openDatabase(file, 'process')
  t.equal(database.prepare('DELETE FROM request_facts WHERE block IN (1, 3)').run().changes, 2)
  database.close()
  t.same(await found(), before, 'blocks of an earlier version, which have no facts, are searched record by record')
})

/** Bounds of a number, each of which may be left out. */
function range<T>(min: number, max: number, of: (value: number) => T): fc.Arbitrary<Bounds<T>> {
  const end = fc.option(fc.integer({ min, max }).map(of), { nil: undefined })
  return fc
    .record({ from: end, to: end })
    .map(({ from, to }) => ({ ...(from !== undefined && { from }), ...(to !== undefined && { to }) }))
}

t.test('the separators of facts in the name of a model, which clients choose, mix no records up', async (t) => {
  const { store } = await open(t)
  const models = ['a', 'b\x1fc', 'd', 'e\nf', 'g', '\x1f', 'h']
  // A full block, which is searched by its columns, and the beginning of the next, which is read record by record.
  const all = Array.from({ length: 1200 }, (_, i) => record({ model: models[i % models.length]! })).toReversed()
  for (const one of all.toReversed()) store.requests.append(one)
  for (const model of [...models, 'c', 'b', 'f']) {
    const expected = all.filter((one) => one.model === model).map(({ request_id }) => request_id)
    const found = await pages(store, { limit: 1000, model })
    t.same(
      found.map(({ request_id }) => request_id),
      expected,
      JSON.stringify(model)
    )
  }
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
  t.same(await store.requests.list({ limit: 10, tenant: "' OR 1=1 --", tag: "' OR 1=1 --" }), { data: [], next: null })
  for (const [param, bad] of Object.entries({
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

const things = documentKind<{ name: string; more?: number }>('thing')

t.test('a document is found at once and after a restart, and a change is in the audit log', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  let now = noon
  const store = await openStore({ file, durability: 'process', now: () => now })
  const { documents } = store
  const seen: string[] = []
  const end = documents.watch((changes) => void seen.push(changes.map(({ id }) => id).join()))
  const [one, two] = [{ name: 'one' }, { name: 'two', more: 2 }]
  const writing = documents.change([changeOf(things, 'b', one), changeOf(things, 'a', two)], {
    action: 'make',
    actor: 'me'
  })
  t.equal(documents.find(things, 'b'), one, 'before it is on disk')
  t.same(seen, ['b,a'])
  await writing
  now += 1000
  await documents.change([changeOf(things, 'b', { name: 'other' })], { action: 'change', actor: 'you' })
  await documents.change([changeOf(things, 'a', null), changeOf(things, 'c', one)])
  end()
  now += 1000
  await documents.change([], { action: 'refused', actor: 'you' })
  t.same(seen, ['b,a', 'b', 'a,c'])
  t.same(documents.all(things), [{ name: 'other' }, one])
  t.equal(documents.find(things, 'a'), undefined)
  t.same(documents.all(documentKind('other')), [])
  const entries = async (store: Store, query: Partial<AuditQuery> = {}): Promise<unknown[]> =>
    (await store.documents.audit({ limit: 10, ...query })).map(({ seq, time, entry }) => [seq, time, entry['action']])
  const all = [
    [3, noon + 2000, 'refused'],
    [2, noon + 1000, 'change'],
    [1, noon, 'make']
  ]
  t.same(await entries(store), all)
  t.same(await entries(store, { before: 3, limit: 1 }), [all[1]])
  t.same(await entries(store, { members: { actor: 'you' }, since: noon + 1001 }), [all[0]])
  t.same(await entries(store, { members: { actor: "' OR 1" } }), [])
  t.same(await entries(store, { until: noon }), [all[2]])
  await store.close()
  t.same(verify(file), [])
  const again = await openStore({ file, durability: 'process' })
  t.same(again.documents.all(things), [{ name: 'other' }, one], 'in the order in which they were first put')
  t.same(await entries(again), all)
  await again.documents.change([changeOf(things, 'd', two)], { action: 'later', actor: 'me' })
  await again.close()
  t.same(verify(file), [], 'and the chain goes on')
})

t.test('a store in memory works as one in a file and leaves nothing behind', async (t) => {
  const store = await openStore({ file: ':memory:', durability: 'process' })
  await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4)
  t.equal((await store.requests.list({ limit: 5 })).data.length, 1)
  await store.close()
})

t.test('a record of what is held in parts alone is kept like any other where records are dropped', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', now: Date.now })
  const [whole, owing, half, ended] = [randomUUIDv7(), randomUUIDv7(), randomUUIDv7(), randomUUIDv7()]
  const scopes = [scope('key', 'k')]
  reserve(store.ledger, scopes, 5n, { requestId: whole })
  for (const part of ['1', '2']) reserve(store.ledger, scopes, 5n, { requestId: owing, part }).dispatched('a')
  const parts = [half, half, ended].map((requestId, at) =>
    reserve(store.ledger, scopes, 5n, { requestId, part: `${at}` })
  )
  await Promise.all([parts[0]!.void(), parts[2]!.void()])
  await store.flush()
  // A store that is being closed takes nothing but what belongs to money.
  const closed = store.close()
  // What follows comes in the very turn in which it is seen to take none, as its last batch is soon written.
  for (;;) {
    store.requests.append(record())
    if (store.health().droppedRecords > 0) break
    await turn()
  }
  for (const request_id of [whole, owing, half, ended]) store.requests.append(record({ request_id }))
  t.equal(store.health().droppedRecords, 2)
  await closed
  const kept = query(file, 'SELECT request_id FROM request').map((row) => row['request_id'])
  t.ok(kept.includes(whole) && kept.includes(owing))
  t.ok(kept.includes(half), 'one of its parts has ended')
  t.notOk(kept.includes(ended))
})

t.test('the audit log is searched by any members together', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const { documents, close } = await openStore({ file, durability: 'process', now: () => noon })
  // Each member has a few values, in another rhythm, and some entries lack it.
  const entries = Array.from({ length: 120 }, (_, number): Record<string, unknown> => {
    const members = auditMembers.map((name, place) => [
      name,
      [`${name}-1`, `it's "2"`, ''][number % (place + 2)] ?? null
    ])
    return Object.fromEntries([...members, ['number', number]]) as Record<string, unknown>
  })
  for (const entry of entries) void documents.change([], entry)
  const values = [undefined, undefined, '-1', `it's "2"`, '']
  for (let round = 0; round < 200; round++) {
    const chosen = auditMembers.flatMap((name, place): [string, string][] => {
      const value = values[Math.floor(round / (place + 1) + place * round) % values.length]
      return value === undefined ? [] : [[name, value === '-1' ? `${name}-1` : value]]
    })
    const [before, limit] = [1 + ((round * 7) % 130), 1 + (round % 9)]
    const found = await documents.audit({ before, members: Object.fromEntries(chosen), limit })
    const due = entries
      .slice(0, before - 1)
      .filter((entry) => chosen.every(([name, value]) => entry[name] === value))
      .reverse()
      .slice(0, limit)
    t.same(
      found.map(({ entry }) => entry),
      due,
      `${JSON.stringify(chosen)} before ${before}`
    )
  }
  await close()
  t.same(verify(file), [])
})

t.test('a search reads so many blocks at once, and goes on where it stopped', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process' })
  // Five full blocks and one that is being filled; the rare ones are in the oldest and in the newest.
  const rare = new Set([10, 20, 5200])
  for (let number = 0; number < 5300; number++)
    store.requests.append(record({ request_id: `req_${number}`, member: rare.has(number) ? 'rare' : 'alice' }))
  await store.close()
  const database = openForReading(file)
  const search = (member: string, limit: number, before?: number): ReturnType<typeof searchRequests> =>
    searchRequests(database, { id: undefined, texts: { member }, from: {}, to: {}, limit, before }, 2)
  const found: string[] = []
  const counts: number[] = []
  let next: number | undefined
  do {
    const page = search('rare', 10, next)
    found.push(...page.records.map(({ request_id }) => request_id))
    counts.push(page.records.length)
    next = page.next
  } while (next !== undefined)
  t.same(found, ['req_5200', 'req_20', 'req_10'], 'each once, the newest first')
  t.same(counts, [1, 0, 2], 'in three steps, one of which finds none')
  const all: string[] = []
  do {
    const page = search('alice', 700, next)
    all.push(...page.records.map(({ request_id }) => request_id))
    next = page.next
  } while (next !== undefined)
  t.equal(all.length, 5297)
  t.equal(new Set(all).size, 5297)
  database.close()
})
