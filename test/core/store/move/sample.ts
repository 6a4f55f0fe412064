// Stores with rows of every kind for tests of moves, and what such a store has, to be compared.
import { createHash } from 'node:crypto'
import { readFileSync, readdirSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Budget } from '../../../../core/catalogue/caller.ts'
import type { Scope } from '../../../../core/catalogue/caller.ts'
import type { Price } from '../../../../core/money/price.ts'
import { costOf } from '../../../../core/money/price.ts'
import { SecretBook } from '../../../../core/store/embedded/book/secret-book.ts'
import { LedgerFile } from '../../../../core/store/embedded/care/ledger-file.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { StoreOptions } from '../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../core/store/store.ts'
import { eventually } from '../../../kit/probe.ts'
import { forms } from '../embedded/forms.ts'
import type { Form } from '../embedded/forms.ts'
import { giveBack, noon, price, query, record, reserve, scope, used, work } from '../embedded/sample.ts'

const day = 86_400_000
const ever = { age: 1e6 * day, size: 2 ** 50 }
/** Of the journal some rows stay in the database, and the rest is sealed. */
const keeping = { requests: ever, journal: { age: ever.age, size: 40_000, rows: 50 }, patience: 0 }

const other: Price = { version: 'other:1', perMillion: { input: 3_000_000n, output: 7_000_000n } }

/** Scopes with budgets of all kinds, and one whose name has what needs care. */
function scopesOf(i: number): Scope[] {
  const budgets: Budget[] = [
    { limit: 10n ** 15n, per: 'month' },
    { limit: 10n ** 15n, per: '7d' }
  ]
  return [
    { kind: 'tenant', id: `tenant:t${i % 5}`, budgets },
    scope('project', `t${i % 5}/web "ünï"`, 10n ** 15n, 'week'),
    scope('key', `k${i % 9}`)
  ]
}

/** A store that has rows of every kind, whose gateway has ended by itself after two starts. */
export async function fullStore(file: string, requests = 300, form: Form = forms.log): Promise<void> {
  const options: StoreOptions = { file, durability: 'process', ...form.options, keeping, now: () => noon }
  const first = await openStore(options)
  await serve(first, requests, noon - 3 * day)
  if (form === forms.log) await eventually(() => query(file, 'SELECT * FROM volume').length > 0, 60_000)
  await first.close()
  const store = await openStore(options)
  await serve(store, 40, noon)
  await manage(store)
  await work_(store)
  await store.flush()
  await store.close()
}

async function serve(store: Store, count: number, time: number): Promise<void> {
  const ends: Promise<void>[] = []
  for (let i = 0; i < count; i++) {
    const at = time + i * 60_000
    const more = { time: at, price: i % 2 ? price : other }
    const held = reserve(store.ledger, scopesOf(i), 10_000n, { ...more, requestId: `${time}-${i}` })
    if (i % 17 === 0) ends.push(giveBack(store, held))
    else {
      const usage = used(i + 1, 10)
      const amount = costOf(usage, more.price)
      ends.push(
        held.settle({
          usage,
          amount,
          source: 'upstream',
          channel: 'openai',
          ...(i % 13 === 0 && {
            costs: [
              {
                attempt: 1,
                channel: 'flaky',
                usage: used(3),
                amount: costOf(used(3), more.price),
                source: 'estimated' as const
              }
            ]
          })
        })
      )
      const fields = { request_id: held.requestId, time: new Date(at).toISOString(), usage, cost_nano: String(amount) }
      store.requests.append(
        record({ ...fields, tenant: `t${i % 5}`, key: `k${i % 9}`, tags: { team: 'a\u0000b' }, cost_usd: '0' })
      )
    }
  }
  await Promise.all(ends)
  await store.flush()
}

async function manage(store: Store): Promise<void> {
  const { documents } = store
  for (let i = 0; i < 20; i++)
    await documents.change(
      [{ kind: i % 2 ? 'tenant' : 'key', id: `d${i}`, value: { name: `d${i}`, note: 'ü\u0000' } }],
      { actor: 'carol', action: 'create', object: `d${i}`, object_kind: 'tenant', tenant: `t${i}` } as never
    )
  await documents.change([{ kind: 'tenant', id: 'd3', value: null }], { actor: 'carol', action: 'close' } as never)
  await documents.change([{ kind: 'tenant', id: 'd3', value: { again: true } }])
  documents.note([{ kind: 'told', id: 'tenant:t0 month', value: { window: '2026-11', threshold: 50 } }])
  // Behind all other documents and by their digests, as a move puts them.
  const secrets = new SecretBook(documents, () => noon)
  const [spends, plain] = ['a secret', 'another one'].map((text) => createHash('sha256').update(text).digest())
  const common = { issuer: createHash('sha256').update('a key').digest(), model: 'demo', expires: noon + 60_000 }
  await secrets.put({ sha256: plain!, ...common, settings: '{"voice":"ä"}' })
  await secrets.put({ sha256: spends!, ...common, budget: 1000n })
  await secrets.hold(spends!, 'one', 10n)
  await secrets.hold(spends!, 'two', 20n)
  secrets.end(spends!, 'one', 7n)
}

async function work_(store: Store): Promise<void> {
  const { works, ledger, routes, answers } = store
  const done = { status: 'succeeded', ended: noon, expires: noon + 1e9 } as const
  await works.keepResult(work('film'), Buffer.alloc(2_500_000, 'film'))
  await works.put(work('film', { ...done, bytes: 2_500_000 }))
  await works.keepResult(work('empty'), Buffer.alloc(0))
  await works.put(work('empty', done))
  const held = reserve(ledger, scopesOf(1), 777n, { requestId: 'request of open' })
  held.dispatched('first')
  await held.detach(noon + 100 * day)
  await works.put(work('open'))
  await routes.put([
    {
      tenant: 't1',
      project: '',
      id: 'resp_1',
      kind: 'response',
      channel: 'first',
      account: 'a',
      model: 'm',
      tokens: 7
    },
    {
      tenant: 't1',
      project: 'web',
      id: 'item_1',
      kind: 'item',
      channel: 'first',
      account: 'a',
      model: 'm',
      tokens: null
    }
  ])
  for (let i = 0; i < 3; i++)
    await answers.put(Buffer.alloc(32, i + 1), 't1', {
      asked: Buffer.alloc(32, 9),
      status: 200,
      type: 'application/json',
      headers: { 'x-a': 'ü' },
      streamed: i === 1,
      body: i === 2 ? undefined : Buffer.from([0, 255, i])
    })
}

/** Everything that a store has, row by row, but for the names of its starts. */
export function contentOf(file: string): Record<string, unknown> {
  const ledger = new LedgerFile(file)
  try {
    const rows = (sql: string): Record<string, unknown>[] => query(file, sql)
    const results = `${file}.results`
    return {
      entries: [...ledger.entries()],
      balances: rows('SELECT * FROM balance ORDER BY scope, window'),
      prices: rows('SELECT * FROM price'),
      holds: rows('SELECT * FROM reservation ORDER BY request_id, part').map(({ id: _, boot_id: __, ...row }) => row),
      documents: rows('SELECT kind, id, json, crc FROM document ORDER BY number'),
      audit: rows('SELECT seq, time, json, hex(hash) AS hash FROM audit'),
      routes: rows('SELECT * FROM route'),
      works: rows('SELECT * FROM work'),
      results: existsSync(results)
        ? readdirSync(results)
            .sort()
            .map((name) => [name, readFileSync(join(results, name)).toString('base64')])
        : [],
      answers: rows(
        'SELECT hex(id) AS id, time, bytes, hex(asked), status, type, streamed, hex(body), tenant, headers FROM answer ORDER BY id'
      ),
      requests: rows('SELECT request_id, tenant, key, model, time, written, json FROM request ORDER BY request_id'),
      minutes: rows('SELECT * FROM traffic_minute'),
      hours: rows('SELECT * FROM traffic_hour'),
      spend: rows(
        `SELECT spend_day.*, spender.* FROM spend_day JOIN spender ON spender.id = spender
         ORDER BY day, tenant, project, member, key, tags, model, channel, price, cost_price`
      ).map(({ spender: _, id: __, ...row }) => row),
      months: rows('SELECT sum(requests), sum(charge), sum(cost), sum(output) FROM spend_month'),
      identity: rows('SELECT hex(history) AS history FROM boot ORDER BY boot_id LIMIT 1')
    }
  } finally {
    ledger.close()
  }
}
