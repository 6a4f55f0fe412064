// Reads a book in PostgreSQL, row by row, for a move: all of it as it is at one moment, while no gateway can join.
import { hash } from 'node:crypto'
import type { Result } from '../cluster/database/statement.ts'
import type { Transaction } from '../cluster/database/lane.ts'
import { StoreInUse } from '../embedded/files/lock.ts'
import type { Row } from '../embedded/files/sqlite.ts'
import { entryColumns } from '../embedded/rows/batch.ts'
import { Traffic } from '../traffic.ts'
import type { Carried, Counts, Key, Part, Source } from './parts.ts'

/** A part that is a query: its rows, the expressions of its key, and how many rows are read at once. */
interface Read {
  readonly select: string
  readonly from: string
  /** The name of a column of the key, and what it is computed by where that is no column. */
  readonly keys: Readonly<Record<string, string>>
  readonly atOnce?: number
}

/** The key of columns. */
function columns(...names: string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, name]))
}

const reads: Readonly<Record<Part, Read>> = {
  price: { select: 'json', from: 'sluice.price', keys: columns('version') },
  balance: {
    select: 'b."limit", b.posted, b.pending',
    from: 'sluice.cell c join sluice.balance b on b.id = c.id',
    keys: { scope: 'c.scope', window: 'c."window"' }
  },
  // The chains of a store that was moved into the book come first, as they were one journal.
  journal: {
    select: `encode(j.prev_hash, 'hex') as prev_hash, encode(j.hash, 'hex') as hash, ${entryColumns.map((name) => `j.${name}`).join(', ')}`,
    from: 'sluice.journal j join sluice.journal_chain c on c.node = j.node and c.epoch = j.epoch',
    keys: { begins: '(not c.continues)::int', node: 'j.node', epoch: 'j.epoch', seq: 'j.seq' }
  },
  origin: {
    select: `node, epoch, last, encode(hash, 'hex') as hash`,
    from: 'sluice.journal_origin',
    keys: columns('first')
  },
  hold: {
    select: `scopes, tags, amount, model, price_version, cost_price, input_units, max_out, pieces, channel, delivered,
      endpoint, client_protocol, streamed, time, lease_until`,
    from: 'sluice.hold',
    keys: columns('request_id', 'part')
  },
  document: {
    select: 'kind, id, value as json',
    from: '(select * from sluice.document where value is not null) d',
    keys: columns('place')
  },
  secret: {
    select: `encode(issuer, 'hex') as issuer, model, settings, (extract(epoch from expires) * 1000)::bigint as expires,
      budget::text as budget, posted::text as posted, (select coalesce(json_object_agg(h.name, h.amount::text), '{}')::text
        from sluice.client_secret_hold h where h.sha256 = s.sha256) as holds`,
    from: 'sluice.client_secret s',
    keys: { sha256: `encode(s.sha256, 'hex')` }
  },
  audit: { select: 'time, json, hash', from: 'sluice.audit', keys: columns('seq') },
  route: {
    select: 'kind, channel, account, model, tokens, expires',
    from: 'sluice.route',
    keys: columns('tenant', 'project', 'id')
  },
  work: {
    select: 'kind, open, created, expires, json',
    from: 'sluice.work',
    keys: columns('tenant', 'project', 'id')
  },
  result: {
    select: 'bytes',
    from: 'sluice.work_result',
    keys: columns('tenant', 'project', 'id', 'number'),
    atOnce: 4
  },
  answer: {
    select: 'id, tenant, asked, status, type, headers, streamed, body',
    from: 'sluice.answer',
    keys: { time: 'time', name: `encode(id, 'hex')` },
    atOnce: 50
  },
  request: { select: 'json', from: 'sluice.request', keys: columns('written', 'time', 'request_id') },
  traffic: {
    select: 'requests, codes, input, output, cost::text as cost, first',
    from: 'sluice.traffic',
    keys: columns('span', 'scope', 'time', 'model', 'channel')
  }
}

/** How many rows are read at once. */
const stride = 2000
/** How long a gateway counts as running after it was heard of, in milliseconds, and how long that is waited for. */
const longestLease = 20_000

/** A book whose gateways are stopped. It is read within a transaction of the caller, which keeps gateways from it. */
export class BookSource implements Source {
  readonly shown: string
  readonly stamp: string
  readonly identity: string | undefined
  readonly #transaction: Transaction

  private constructor(shown: string, stamp: string, identity: string | undefined, transaction: Transaction) {
    this.shown = shown
    this.stamp = stamp
    this.identity = identity
    this.#transaction = transaction
  }

  /**
   * Opens a book in a transaction that has just begun.
   * @throws Error when a store is being moved into it
   */
  static async open(transaction: Transaction, shown: string): Promise<BookSource> {
    await transaction.query('set transaction isolation level repeatable read, read only')
    // Who would join waits; who reads or verifies does not.
    await transaction.query('lock table sluice.node in share mode')
    const { rows: moves } = await transaction.query<{ identity: string; done: boolean }>(
      'select identity, done is not null as done from sluice.move'
    )
    if (moves[0]?.done === false)
      throw new Error(`a store is being moved to ${shown}, and not all of it is there: complete that first`)
    const { rows } = await transaction.query<{ state: string }>(
      `select concat(
         (select string_agg(concat(name, ' ', epoch, ' ', batch), ',' order by name) from sluice.node), '/',
         (select string_agg(concat(node, ' ', epoch, ' ', seq, ' ', encode(hash, 'hex')), ',' order by node, epoch)
          from sluice.journal_chain), '/',
         (select concat(version, ' ', audits, ' ', audit_hash) from sluice.book)) as state`
    )
    return new BookSource(shown, hash('sha256', rows[0]!.state), moves[0]?.identity, transaction)
  }

  counts(): Promise<Counts> {
    return countBook((text) => this.#transaction.query(text))
  }

  async *rows(part: Part, after: Key | undefined): AsyncGenerator<Carried> {
    if (part === 'traffic') yield* merged(this.#rows(part, after))
    else yield* this.#rows(part, after)
  }

  async *#rows(part: Part, after: Key | undefined): AsyncGenerator<Carried> {
    const { select, from, keys, atOnce = stride } = reads[part]
    const expressions = Object.values(keys)
    const named = Object.entries(keys).map(([name, expression]) => `${expression} as "${name}"`)
    const where = after
      ? `where (${expressions.join(', ')}) > (${expressions.map((_, i) => `$${i + 1}`).join(', ')})`
      : ''
    await this.#transaction.query(
      `declare moved no scroll cursor for select ${[...named, select].join(', ')} from ${from} ${where} order by ${expressions.join(', ')}`,
      after
    )
    for (;;) {
      const { rows } = await this.#transaction.query<Row>(`fetch ${atOnce} from moved`)
      for (const row of rows) yield { key: Object.keys(keys).map((name) => keyValue(row[name])), row }
      if (rows.length < atOnce) break
    }
    await this.#transaction.query('close moved')
  }
}

/**
 * Waits until no gateway counts as running any more, as one that has just ended does for some seconds.
 * @throws StoreInUse when one goes on
 */
export async function waitForGateways(
  query: (text: string) => Promise<Result<{ name: string; until: number }>>,
  shown: string,
  wait: (names: string) => Promise<void>
): Promise<void> {
  const first = new Map<string, number>()
  for (const began = performance.now(); ;) {
    const { rows } = await query(
      `select name, extract(epoch from expires)::float8 as until from sluice.node where expires > clock_timestamp()
       order by name`
    )
    if (rows.length === 0) return
    const names = rows.map(({ name }) => name).join(', ')
    const renewed = rows.some(({ name, until }) => first.has(name) && first.get(name) !== until)
    if (renewed || performance.now() - began > longestLease)
      throw new StoreInUse(`gateways work on ${shown} (${names}): stop them, and begin again`)
    for (const { name, until } of rows) first.set(name, until)
    await wait(names)
  }
}

/** Counts the rows of a book. */
export async function countBook(query: (text: string) => Promise<Result<unknown>>): Promise<Counts> {
  const counts: [string, number][] = []
  for (const [part, { from, keys }] of Object.entries(reads)) {
    const names = Object.values(keys).join(', ')
    // Several processes have sums of their own, and one request may have been written twice.
    const counted =
      part === 'traffic'
        ? `(select distinct ${names} from ${from}) d`
        : part === 'request'
          ? `(select distinct request_id from ${from}) d`
          : from
    const { rows } = await query(`select count(*)::int as count from ${counted}`)
    counts.push([part, (rows[0] as { count: number }).count])
  }
  return Object.fromEntries(counts) as unknown as Counts
}

/** Adds up the sums of several processes, which follow each other. */
async function* merged(rows: AsyncIterable<Carried>): AsyncGenerator<Carried> {
  let last: { carried: Carried; traffic: Traffic } | undefined
  for await (const carried of rows) {
    const traffic = trafficOf(carried.row)
    if (last && String(last.carried.key) === String(carried.key)) {
      last.traffic.join(traffic)
      continue
    }
    if (last) yield shown(last)
    last = { carried, traffic }
  }
  if (last) yield shown(last)
}

function shown({ carried: { key, row }, traffic }: { carried: Carried; traffic: Traffic }): Carried {
  return { key, row: { ...row, ...traffic.stored } }
}

function trafficOf({ requests, codes, input, output, cost, first }: Row): Traffic {
  return Traffic.of({
    requests: Number(requests),
    codes: codes as string,
    input: Number(input),
    output: Number(output),
    cost: cost as string,
    first: first as string
  })
}

function keyValue(value: unknown): string | number {
  return typeof value === 'bigint' ? Number(value) : (value as string | number)
}
