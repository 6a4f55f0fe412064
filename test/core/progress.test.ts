// What commands that may take long say meanwhile: which of them, where, and with how much of it done.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { importPrices } from '../../config/prices/litellm-list.ts'
import { commands } from '../../core/commands/all.ts'
import { differenceOf } from '../../core/store/embedded/care/difference.ts'
import { LedgerFile } from '../../core/store/embedded/care/ledger-file.ts'
import { planRepair, repair, repairSpend, repairTraffic } from '../../core/store/embedded/care/repair.ts'
import type { Amount } from '../../core/store/embedded/care/tell.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import { gateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { query, reserve, scope, settle } from './store/embedded/sample.ts'

t.setTimeout(600_000)

const root = join(import.meta.dirname, '..', '..')
const preload = join(import.meta.dirname, 'progress-hold.ts')
const prices = join(root, 'test/golden/import/prices.json')
const day = 86_400_000
const noon = Date.UTC(2026, 10, 21, 12)

/** Makes a store with so many charges, and closes it. */
async function storeOf(file: string, charges: number): Promise<string> {
  const store = await openStore({ file, durability: 'process' })
  for (let i = 0; i < charges; i++)
    await settle(store, reserve(store.ledger, [scope('tenant', 'acme')], 50n, { time: noon }), 7)
  await store.close()
  return file
}

/** Commands that read and write no more than fits a moment, or that run until they are stopped. */
const quick = [
  'init start health diff explain plugins completion rollback'.split(' '),
  ['config history', 'channels list', 'channels switch', 'audit list'],
  ['tenants', 'projects', 'members'].flatMap((level) =>
    ['create', 'list', 'change', 'close'].map((verb) => `${level} ${verb}`)
  ),
  ['keys', 'operators'].flatMap((who) =>
    ['create', 'list', 'change', 'rotate', 'revoke'].map((verb) => `${who} ${verb}`)
  )
].flat()

t.test('each command that may take long says on standard error what it does, and nothing else there', async (t) => {
  const folder = t.testdir()
  const sold = { store: { sqlite: join(folder, 'running.db'), durability: 'process' } }
  const served = await gateway(t, sold)
  served.configure({ ...sold, admin: { port: Number(new URL(served.adminUrl).port) } })
  const at = ['--config', served.file]
  const db = await storeOf(join(folder, 'book.db'), 3)
  const copy = join(folder, 'copy.db')
  const bill = join(folder, 'bill.json')
  const dump = join(folder, 'new-api.sql')
  writeFileSync(
    dump,
    "INSERT INTO `channels` (`id`, `type`, `key`, `status`, `name`, `models`) VALUES (1, 1, 'k', 1, 'main', 'gpt-5');\n"
  )
  const results = [{ amount: { value: 1, currency: 'usd' }, line_item: 'gpt-5, output' }]
  const bucket = { start_time: (noon - day / 2) / 1000, end_time: (noon + day / 2) / 1000, results }
  writeFileSync(bill, JSON.stringify({ object: 'page', data: [{ object: 'bucket', ...bucket }], has_more: false }))
  /** In this order; the last is the exit code where that is not 0. */
  const long: readonly (readonly [name: string, args: readonly string[], says: RegExp, code?: number])[] = [
    ['ledger verify', ['--db', db], /^checking \w+/],
    ['ledger balance', ['--db', db], /^reading balances/],
    ['ledger export', ['--db', db], /^(reading|writing) the journal/],
    ['ledger backup', [copy, '--db', db], /^(looking at the store|copying|checking)/],
    ['ledger repair', ['--db', db], /^looking (for damage|at the (commit log|journal))/],
    ['ledger restore', [copy, '--db', db], /^looking at the backup/],
    ['ledger move', ['--from', db, '--to', 'postgres://me@127.0.0.1:1/book'], /^(looking at both|counting)/, 1],
    ['ledger reconcile', [bill, '--db', db], /^reading the journal/],
    ['spend', ['--db', db], /^adding up/],
    ['import litellm', [prices], /^reading the file/],
    ['import new-api', [dump], /^reading the database/],
    ['check', ['--online', ...at], /^trying the channels/],
    ['channels test', ['demo', ...at], /^waiting for what the channel answers/],
    ['audit export', at, /^reading the audit log/],
    // The gateway of this test is no process of its own.
    ['upgrade', at, /^waiting for the next process/, 1]
  ]
  t.same(
    [...quick, ...long.map(([name]) => name)].sort(),
    commands.map(({ name }) => name).sort(),
    'each command is here: one that is new may take long, or not'
  )
  for (const [index, [name, args, says, code = 0]] of long.entries()) {
    const go = join(folder, `go-${index}`)
    const line = ['--import', preload, join(root, 'core/main.ts'), ...name.split(' '), ...args, '--json']
    const child = spawn(process.execPath, line, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, HOLD: go }
    })
    t.teardown(() => child.kill('SIGKILL'))
    let [out, err] = ['', '']
    child.stdout.on('data', (text: Buffer) => (out += text.toString()))
    child.stderr.on('data', (text: Buffer) => (err += text.toString()))
    const closed = once(child, 'close')
    await eventually(() => err.includes('\n') || child.exitCode !== null, 120_000)
    t.match(err, says, name)
    writeFileSync(go, '')
    const [ended] = (await closed) as [number | null]
    t.equal(ended, code, `${name}: ${err}`)
    const rest = err.split('\n').filter((one) => one !== '' && !/^[^{"]*, \d+ s(, .* left)?$/.test(one))
    t.same(rest, code === 1 ? [rest[0]] : [], `${name} says nothing else`)
    t.notMatch(`${out}${err}`, '\u001b', `${name} has no colours where there is no terminal`)
    for (const one of out.trimEnd().split('\n').filter(Boolean))
      t.doesNotThrow(() => JSON.parse(one) as unknown, `${name}: ${one.slice(0, 80)}`)
  }
})

t.test(
  'rows that come on a terminal are not mixed with progress',
  { skip: spawnSync('python3', ['-c', 'import pty']).status !== 0 },
  async (t) => {
    const db = await storeOf(join(t.testdir(), 'sluice.db'), 3)
    const python = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))'
    const { HOLD: _none, ...env } = process.env
    for (const [args, code] of [
      [['ledger', 'export'], 0],
      [['spend', '--by', 'tenant', '--format', 'csv'], 0],
      [['spend', '--format', 'focus'], 0],
      [['ledger', 'balance'], 99]
    ] as const) {
      const line = ['--import', preload, join(root, 'core/main.ts'), ...args, '--db', db]
      const { status, stdout } = spawnSync('python3', ['-c', python, process.execPath, ...line], {
        encoding: 'utf8',
        env
      })
      t.equal(status, code, `${args.join(' ')}: ${stdout}`)
    }
  }
)

/** Gathers what is told, by its words, and holds that each count goes from nothing to all. */
function gathered() {
  const steps = new Map<string, Amount[]>()
  return {
    steps,
    tell(words: string, amount?: Amount) {
      steps.set(words, [...(steps.get(words) ?? []), ...(amount ? [amount] : [])])
    },
    whole(words: string): number | undefined {
      const told = steps.get(words) ?? []
      const grows = told.every(({ done }, at) => at === 0 || done >= told[at - 1]!.done)
      const last = told.at(-1)
      return grows && last && last.done === last.of && told.every(({ of }) => of === last.of) ? last.done : undefined
    }
  }
}

t.test('what is counted has a total, so that the time left is known', async (t) => {
  const folder = t.testdir()
  const db = await storeOf(join(folder, 'sluice.db'), 2500)
  const ledger = new LedgerFile(db)
  for (const [filter, matching] of [
    [{}, 2500],
    [{ scope: 'tenant:nobody' }, 0],
    [{ since: noon + day }, 0],
    [{ scope: 'tenant:acme', until: noon + 1 }, 2500]
  ] as const) {
    const { steps, tell, whole } = gathered()
    const found = [...ledger.entries(filter, (done, of) => tell('rows', { done, of, unit: 'rows' }))]
    t.equal(found.length, matching)
    t.equal(whole('rows'), 2500, 'also of rows that do not match')
    t.ok(steps.get('rows')!.length > 2, 'and in between')
  }
  ledger.close()
  const empty = await storeOf(join(folder, 'empty.db'), 0)
  const more = gathered()
  differenceOf(db, empty, (done, of) => more.tell('rows', { done, of, unit: 'rows' }))
  t.equal(more.whole('rows'), 2500)
  const sums = gathered()
  repairSpend(db, sums.tell)
  t.equal(sums.whole('adding spend up'), 2500)
  repairTraffic(db, sums.tell)
  t.ok(sums.steps.has('adding traffic up'))
  const models = gathered()
  importPrices(
    readFileSync(prices, 'utf8'),
    () => true,
    (done, of) => models.tell('models', { done, of, unit: 'models' })
  )
  const told = models.steps.get('models')!
  t.equal(told.at(-1)!.done, told.at(-1)!.of! - 1)
})

/** The commit log of a store with so many charges, as a kill leaves it, without the database. It has all of them. */
async function logOf(folder: string, charges: number): Promise<string> {
  for (;;) {
    const file = join(mkdtempSync(join(folder, 'store-')), 'sluice.db')
    const store = await openStore({ file, durability: 'process', form: 'database' })
    const charge = (): Promise<void> => settle(store, reserve(store.ledger, [scope('tenant', 'acme')], 50n), 7)
    await Promise.all(Array.from({ length: charges }, charge))
    const copy = `${file}-copy`
    for (const ending of ['.log0', '.log1']) cpSync(file + ending, copy + ending)
    const [{ applied }] = query(file, 'SELECT count(*) AS applied FROM journal') as [{ applied: bigint }]
    await store.close()
    // On a slow machine the database has caught up, and the log need not have what is there.
    if (applied === 0n) return copy
  }
}

t.test('a repair says which step it is at', async (t) => {
  const copy = await logOf(t.testdir(), 50)
  const { steps, tell, whole } = gathered()
  const plan = planRepair(copy, tell)!
  t.match(plan, { base: 'new', saved: { charges: 50 } })
  repair(copy, plan, noon, tell)
  t.same(
    [...steps.keys()],
    [
      'looking at the commit log',
      'looking for a sound state of the database',
      'reading the commit log',
      'putting files aside',
      'applying the commit log',
      'closing the database'
    ]
  )
  t.equal(whole('reading the commit log'), plan.saved.batches)
  t.equal(whole('applying the commit log'), plan.saved.batches)
  const sound = gathered()
  t.equal(planRepair(copy, sound.tell), undefined)
  t.same([...sound.steps.keys()], ['looking at the commit log', 'checking all pages of the database'])
})
