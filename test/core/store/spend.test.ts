// Spend: sums that follow the journal entry by entry, whatever happens to the store, and queries of them.
import { existsSync, readdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { emptyBatch } from '../../../core/store/embedded/rows/batch.ts'
import { Committer } from '../../../core/store/embedded/database/committer.ts'
import { LedgerFile } from '../../../core/store/embedded/care/ledger-file.ts'
import type { Entry } from '../../../core/store/embedded/care/ledger-file.ts'
import type { SpendGroup, SpendQuery, SpendSum } from '../../../core/store/spend.ts'
import { openDatabase } from '../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { Store } from '../../../core/store/store.ts'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import type { Scope } from '../../../core/catalogue/caller.ts'
import type { Price } from '../../../core/money/price.ts'
import { costOf } from '../../../core/money/price.ts'
import type { Usage } from '../../../core/money/usage.ts'
import { sluice } from '../../kit/command.ts'
import { eventually } from '../../kit/probe.ts'
import { rewind } from './embedded/earlier.ts'
import { forms } from './embedded/forms.ts'
import type { Form } from './embedded/forms.ts'
import { noon, price, query, record, reserve, scope, used } from './embedded/sample.ts'

t.setTimeout(600_000)

const day = 86_400_000
const ever = { age: 1e6 * day, size: 2 ** 50 }
const rolled = { requests: ever, journal: { age: ever.age, size: 172_000, rows: 200 }, patience: 0 }
const open = (file: string, { options }: Form = forms.log): Promise<Store> =>
  openStore({ file, durability: 'process', keeping: rolled, now: () => noon, ...options })

const own: Price = { version: 'own:1', perMillion: { input: 700_000n, output: 300_000n } }
const costs = new Map([['openai', own]])
const callers: readonly (readonly Scope[])[] = [
  [
    scope('tenant', 'acme', 10n ** 15n, 'month'),
    scope('project', 'acme/web'),
    { ...scope('key', 'laptop'), tags: { team: 'search', env: 'prod' } }
  ],
  [scope('tenant', 'acme', 10n ** 15n, 'month'), { ...scope('key', 'desk'), tags: { team: 'ads' } }],
  [scope('tenant', 'other'), scope('project', 'other/web'), scope('member', 'other/web/bob'), scope('key', 'phone')]
]

interface Ask {
  caller: number
  model: string
  channel: string
  costed: boolean
  days: number
  usage: Usage
  failed: number | undefined
  voided: boolean
}

const ask: fc.Arbitrary<Ask> = fc.record({
  caller: fc.nat(callers.length - 1),
  model: fc.constantFrom('gpt-5', 'claude'),
  channel: fc.constantFrom('openai', 'backup'),
  costed: fc.boolean(),
  days: fc.nat(40),
  usage: fc.record({
    input: fc.nat(5000),
    cached_input: fc.nat(9),
    cache_write: fc.constant(0),
    output: fc.nat(5000),
    reasoning: fc.nat(9),
    image: fc.nat(2)
  }),
  failed: fc.option(fc.nat(900), { nil: undefined }),
  voided: fc.boolean()
})

async function serve(store: Store, asks: readonly Ask[]): Promise<void> {
  const ends = asks.map(({ caller, model, channel, costed, days, usage, failed, voided }) => {
    const time = noon - days * day
    const more = { model, time, ...(costed && { costs }) }
    const reservation = reserve(store.ledger, callers[caller]!, 99_999n, more)
    const attempts =
      failed === undefined
        ? undefined
        : [{ attempt: 1, channel: 'openai', usage: used(failed), amount: BigInt(failed), source: 'partial' as const }]
    const amount = voided ? 0n : costOf(usage, price)
    const ended = voided
      ? reservation.void(attempts)
      : reservation.settle({ usage, amount, source: 'upstream', channel, ...(attempts && { costs: attempts }) })
    store.requests.append(
      record({ request_id: reservation.requestId, time: new Date(time).toISOString(), cost_nano: String(amount) })
    )
    return ended
  })
  await Promise.all(ends)
}

function reading<T>(file: string, work: (ledger: LedgerFile) => T): T {
  const ledger = new LedgerFile(file)
  try {
    return work(ledger)
  } finally {
    ledger.close()
  }
}

/** What a query should find, added up from the entries of the journal, apart from the product. */
function expected(entries: readonly Entry[], by: readonly SpendGroup[], chosen: (entry: Entry) => boolean): SpendSum[] {
  const sums = new Map<string, SpendSum & { usage: Record<string, number> }>()
  for (const entry of entries.filter(chosen)) {
    const group = by.map((name) => groupOf(entry, name))
    const id = JSON.stringify(group)
    const sum = sums.get(id) ?? {
      group,
      requests: 0,
      charge: 0n,
      cost: undefined as bigint | undefined,
      uncosted: 0n,
      failed: 0n,
      usage: { input: 0, cached_input: 0, cache_write: 0, output: 0, reasoning: 0 } as Record<string, number>
    }
    if (entry.cost !== null) sum.cost = (sum.cost ?? 0n) + entry.cost
    if (entry.kind === 'cost') sum.failed += entry.amount
    else {
      sum.charge += entry.amount
      if (entry.cost === null) sum.uncosted += entry.amount
      if (entry.class === 'terminal' && entry.part === '') sum.requests++
      for (const [name, units] of Object.entries((entry.usage ?? {}) as Record<string, number>))
        if (units > 0) sum.usage[name] = (sum.usage[name] ?? 0) + units
    }
    sums.set(id, sum)
  }
  const ordered = (one: readonly string[], other: readonly string[]): number => {
    const at = one.findIndex((name, index) => name !== other[index])
    return at === -1 ? 0 : one[at]! < other[at]! ? -1 : 1
  }
  return [...sums.values()].sort((one, other) => ordered(one.group, other.group))
}

function groupOf({ scopes, tags, time, model, channel }: Entry, name: SpendGroup): string {
  const date = new Date(time).toISOString()
  const labels = (tags ?? {}) as Record<string, string>
  if (name === 'day') return date.slice(0, 10)
  if (name === 'month') return date.slice(0, 7)
  if (name === 'model') return model!
  if (name === 'channel') return channel ?? ''
  if (name === 'tag') return tags === null ? '' : JSON.stringify(tags)
  if (name.startsWith('tag:')) return labels[name.slice(4)] ?? ''
  const id = Object.keys(scopes).find((scope) => scope.startsWith(`${name}:`)) ?? ''
  return id.slice(Math.max(id.indexOf(':'), id.lastIndexOf('/')) + 1)
}

const queries: [by: SpendGroup[], more: Partial<SpendQuery>, chosen: (entry: Entry) => boolean][] = [
  [[], {}, () => true],
  [['tenant'], {}, () => true],
  [['tenant', 'project', 'member', 'key', 'model', 'channel', 'tag', 'day'], {}, () => true],
  [['month', 'model'], {}, () => true],
  [['tag:team'], {}, () => true],
  [['tag:nothing', 'key'], {}, () => true],
  [
    ['day'],
    { equal: { tenant: 'acme', model: 'claude' } },
    (entry) => groupOf(entry, 'tenant') === 'acme' && entry.model === 'claude'
  ],
  [['channel'], { tag: { name: 'team', value: 'search' } }, (entry) => groupOf(entry, 'tag:team') === 'search'],
  [
    ['key'],
    { since: noon / day - 0.5 - 10, until: noon / day - 0.5 - 3 },
    ({ time }) => time >= noon - 10 * day && time < noon - 3 * day
  ],
  [['key'], { equal: { key: 'none' } }, () => false]
]

/** Compares every query, page by page, with the entries of the journal, and balances with sums. */
function check(t: Test, file: string): void {
  reading(file, (ledger) => {
    const entries = [...ledger.entries()]
    for (const [by, more, chosen] of queries) {
      const sums: SpendSum[] = []
      let after: readonly string[] | undefined
      do {
        const page = ledger.spend({ by, equal: {}, limit: 7, after, ...more })
        t.ok(page.sums.length <= 7)
        sums.push(...page.sums)
        after = page.next
      } while (after)
      const due = expected(entries, by, chosen)
      if (by.length === 0 || due.length > 0) t.same(sums, due, by.join())
      else t.same(sums, [])
    }
    const posted = new Map(
      ledger.balances(Date.now()).map(({ scope, window, posted }) => [`${scope} ${window}`, posted])
    )
    for (const kind of ['tenant', 'key'] as const)
      for (const { group, charge } of ledger.spend({ by: [kind], equal: {}, limit: 99 }).sums)
        t.equal(posted.get(`${kind}:${group[0]} total`), charge, `${kind} ${group[0]}`)
    for (const { group, charge } of ledger.spend({ by: ['month'], equal: { tenant: 'acme' }, limit: 99 }).sums)
      t.equal(posted.get(`tenant:acme ${group[0]}`) ?? 0n, charge, `acme in ${group[0]}`)
  })
  t.same(verify(file), [])
}

/** Whether a part of the journal is sealed: in a volume of either form. */
function sealed(file: string): boolean {
  return existsSync(`${file}.journal`) && readdirSync(`${file}.journal`).some((name) => /^volume-\d+$|\.gz$/.test(name))
}

for (const form of Object.values(forms))
  t.test(
    `queries add up to the journal and the balances, over restarts and sealed entries: a ${form.name}`,
    async (t) => {
      const file = join(t.testdir(), 'sluice.db')
      for (const seed of [1, 2, 3]) {
        const store = await open(file, form)
        await serve(store, fc.sample(ask, { numRuns: 300, seed }))
        const left = reserve(store.ledger, callers[0]!, 99_999n, { costs })
        left.dispatched('openai')
        await left.durable
        await store.flush()
        if (seed === 3) await eventually(() => sealed(file), 10_000)
        // The hold of the last request is left open, and ended by the next start.
        await store.close()
      }
      await (await open(file, form)).close()
      check(t, file)
    }
  )

t.test('adjustments and grants count as what they add to balances', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await serve(store, fc.sample(ask, { numRuns: 20, seed: 7 }))
  await store.close()
  const database = openDatabase(file, 'process')
  const committer = new Committer(database)
  const batch = emptyBatch(committer.head.batch, noon)
  batch.balanced = true
  for (const [kind, amount] of [
    ['adjust', -3n],
    ['adjust', 500n],
    ['grant', -7n]
  ] as const) {
    const scopes = '{"tenant:acme":"month","key:desk":"total"}'
    const evidence = `${kind}:${amount}`
    const entry = [kind, 'r1', '', evidence, scopes, amount, 0n, null, 'gpt-5', 'openai', 'sample:1', 'manual', noon]
    batch.entries.push(...entry, '{"team":"ads"}', null, null)
    for (const balance of ['tenant:acme 2026-11', 'tenant:acme total', 'key:desk total'])
      batch.moves.push(...(balance.split(' ') as [string, string]), amount, 0n)
  }
  committer.add(batch)
  committer.commit()
  database.close()
  check(t, file)
})

t.test('sums beyond what is believed agree with the journal, in whatever order their entries came', async (t) => {
  const most = 4n * 10n ** 18n
  const units = 10 ** 12
  // What one transaction adds, entry by entry: costs, and what failed attempts are worth.
  const schedules: [name: string, transactions: bigint[][], copies: number][] = [
    ['one entry after the other', [[3n * 10n ** 18n], [2n * 10n ** 18n], [7n]], 3100],
    ['in one transaction, more than a column holds', [[9n * 10n ** 18n, 9n * 10n ** 18n, 5n], [1n]], 1],
    ['a first entry above it', [[5n * 10n ** 18n]], 1]
  ]
  for (const [name, transactions, copies] of schedules) {
    const file = join(t.testdir(), `${name.length}.db`)
    const store = await open(file)
    await serve(store, fc.sample(ask, { numRuns: 1, seed: 7 }))
    await store.close()
    const database = openDatabase(file, 'process')
    const committer = new Committer(database)
    const usage = JSON.stringify({ ...used(units, units), image: units })
    let number = 0
    for (const amounts of transactions) {
      const batch = emptyBatch(committer.head.batch, noon)
      for (const amount of amounts) {
        const common = [`big${++number}`, '', 'adjust:big', '{"tenant:big":"total"}']
        const rest = ['big', 'openai', 'sample:1', 'manual', noon, null]
        batch.entries.push('cost', ...common, amount, 0n, null, ...rest, null, null)
        // Adjustments have no usage, but nothing keeps whoever adds one from saying what it is for.
        for (let copy = 0; copy < copies; copy++)
          batch.entries.push('adjust', `${number}-${copy}`, ...common.slice(1), 0n, 0n, usage, ...rest, amount, 'own:1')
      }
      committer.add(batch)
      committer.commit()
    }
    database.close()
    t.same(
      verify(file).filter(({ invariant }) => invariant === 'I19'),
      [],
      name
    )
    reading(file, (ledger) => {
      const { sums } = ledger.spend({ by: ['tenant', 'day'], equal: { tenant: 'big' }, limit: 9 })
      t.equal(sums[0]!.cost, most, name)
      t.equal(sums[0]!.usage.output, Math.min(number * copies * units, Number.MAX_SAFE_INTEGER), name)
    })
    t.match(await sluice(['ledger', 'repair', '--spend', '--db', file]), { code: 0 })
    t.same(
      verify(file).filter(({ invariant }) => invariant === 'I19'),
      [],
      `${name}, added up anew`
    )
  }
})

t.test('sums of more than a column holds are exact in money, and stay at the most in units', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await (await open(file)).close()
  const database = openDatabase(file, 'process')
  const [rows, amount, units] = [1100, 4n * 10n ** 18n + 1n, Number.MAX_SAFE_INTEGER]
  database.exec('BEGIN')
  for (let id = 1; id <= rows; id++) {
    const who = ['tenant', 'project', 'member', 'key', 'tags']
    const names = [`t${id % 3}`, '', '', `k${id}`, '']
    database.prepare(`INSERT INTO spender (id, ${who.join(', ')}) VALUES (?, ?, ?, ?, ?, ?)`).run(id, ...names)
    for (const [span, time] of [
      ['day', 20_000],
      ['month', 2024 * 12 + 9]
    ] as const)
      database
        .prepare(`INSERT INTO spend_${span} VALUES (?, ?, 'm', 'c', '', ?, 1, ?, ?, ?, ?, 0, 0, ?, 0, ?)`)
        .run(time, id, id % 2 === 0 ? 'p' : '', amount, amount, amount, 7, units, `{"image":${units}}`)
  }
  database.exec('COMMIT')
  database.close()
  const bys: SpendGroup[][] = [
    [],
    ['model'],
    ['tenant'],
    ['month'],
    ['day'],
    ['tenant', 'day', 'key', 'model', 'channel']
  ]
  reading(file, (ledger) => {
    for (const by of bys) {
      const { sums } = ledger.spend({ by, equal: {}, limit: 10_000 })
      const added = (of: (sum: SpendSum) => bigint): bigint => sums.reduce((all, sum) => all + of(sum), 0n)
      const name = `by ${by.join(', ')}`
      t.equal(
        added(({ requests }) => BigInt(requests)),
        BigInt(rows),
        name
      )
      for (const what of ['charge', 'cost', 'failed'] as const)
        t.equal(
          added((sum) => sum[what] ?? 0n),
          amount * BigInt(what === 'cost' && by.length > 2 ? rows / 2 : rows),
          `${name}: ${what}`
        )
      t.equal(
        added(({ uncosted }) => uncosted),
        amount * BigInt(rows / 2),
        `${name}: uncosted`
      )
      t.ok(
        sums.every(({ usage: { output, image } }) => output === units && image === units),
        `${name}: units`
      )
      t.equal(
        sums.reduce((all, { usage }) => all + usage.input!, 0),
        7 * rows,
        `${name}: units that are few`
      )
    }
  })
})

t.test('entries of an earlier version are added up at the first start, sealed ones too', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  await serve(store, fc.sample(ask, { numRuns: 700, seed: 4 }))
  await store.flush()
  await eventually(() => query(file, 'SELECT 1 FROM volume').length > 0, 10_000)
  await store.close()
  rewind(file, 6)
  const [volume] = readdirSync(`${file}.journal`).sort()
  const path = join(`${file}.journal`, volume!)
  renameSync(path, `${file}.aside`)
  await t.rejects(open(file), {
    message: /spend cannot be added up: the journal from row 1 to 200 is sealed in .* which is missing/
  })
  renameSync(`${file}.aside`, path)
  await (await open(file)).close()
  check(t, file)
})

for (const form of Object.values(forms))
  t.test(`a sum that was changed by hand is named: a ${form.name}`, async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const store = await open(file, form)
    await serve(store, fc.sample(ask, { numRuns: 20, seed: 6 }))
    await store.close()
    for (const change of [
      'UPDATE spend_day SET charge = charge + 1',
      'UPDATE spend_day SET requests = requests + 1',
      'UPDATE spend_day SET cost = cost + 1',
      'UPDATE spend_day SET output = output - 1',
      'DELETE FROM spend_day WHERE day = (SELECT min(day) FROM spend_day)',
      "UPDATE spend_month SET units = '{}' WHERE units IS NOT NULL",
      'UPDATE spend_month SET reasoning = reasoning + 1',
      'DELETE FROM spend_month',
      "UPDATE spender SET tags = ''",
      "UPDATE spend_day SET cost_price = 'x'"
    ]) {
      const database = openDatabase(file, 'process')
      database.exec('BEGIN')
      database.exec(`SAVEPOINT before; ${change}`)
      database.exec('COMMIT')
      database.close()
      const found = verify(file).map(({ invariant, row }) => `${invariant} ${row}`)
      t.match(found.join('\n'), /^I19 spend 2026-\d\d(-\d\d)? (acme|other) /m, change)
    }
    t.match(await sluice(['ledger', 'repair', '--spend', '--db', file]), { code: 0, out: /spend was added up anew/ })
    check(t, file)
    t.match(await sluice(['ledger', 'repair', '--spend', '--apply', '--db', file]), {
      code: 2,
      err: /--spend stands alone/
    })
    t.match(await sluice(['ledger', 'repair', '--traffic', '--db', file]), {
      code: 0,
      out: /traffic was added up anew/
    })
    t.match(await sluice(['ledger', 'repair', '--traffic', '--spend', '--db', file]), {
      code: 2,
      err: /--spend stands alone/
    })
  })
