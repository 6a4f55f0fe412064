// What a store says of itself when the disk fails or another process holds the database: a line when it begins, one
// when it is over.
import fs, { rmSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { openDatabase } from '../../../../../core/store/embedded/files/sqlite.ts'
import { noteAt } from '../../../../../core/store/embedded/log/segment.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../../core/store/store.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { createLogger } from '../../../../../core/telling/log.ts'
import { eventually } from '../../../../kit/probe.ts'
import { record, reserve, scope, settle } from '../sample.ts'

interface Line {
  level: string
  msg: string
  [field: string]: unknown
}

async function open(t: Test): Promise<{ store: Store; file: string; lines: Line[] }> {
  const file = join(t.testdir(), 'sluice.db')
  const lines: Line[] = []
  const log = createLogger({ write: (line) => lines.push(JSON.parse(line) as Line) })
  return { store: await openStore({ file, durability: 'process', form: 'database', log }), file, lines }
}

const scopes = [scope('key', 'laptop')]
const said = (lines: readonly Line[]): string[] => lines.map(({ level, msg }) => `${level} ${msg}`)

t.test(
  'a database that another process holds is said once, with the file and what to do, and once when it is free',
  async (t) => {
    const { store, file, lines } = await open(t)
    const other = openDatabase(file, 'process')
    other.exec('BEGIN IMMEDIATE')
    await settle(store, reserve(store.ledger, scopes, 9n), 4)
    await eventually(() => store.health().failures >= 2, 10_000)
    t.match(store.health(), {
      healthy: true,
      troubles: [{ ailment: 'database', refuses: false, cause: 'another process holds the database' }]
    })
    other.exec('ROLLBACK')
    other.close()
    await eventually(() => store.health().troubles.length === 0, 10_000)
    t.same(said(lines), [
      'warn the database cannot be written: what is charged is kept in the commit log',
      'info the database is written again'
    ])
    t.match(lines, [
      // The log of SQLite is looked at first, which the other process may be reading.
      {
        store: file,
        cause: 'another process holds the database',
        remedy: /fuser/,
        error: /locked|in use by a reader/
      },
      { store: file, seconds: Number }
    ])
    await store.close()
    t.same(verify(file), [])
  }
)

t.test('a store that is stopped before its database is up to date says what waits', async (t) => {
  const { store, file, lines } = await open(t)
  const other = openDatabase(file, 'process')
  other.exec('BEGIN IMMEDIATE')
  await settle(store, reserve(store.ledger, scopes, 9n), 4)
  await store.close()
  t.match(lines.at(-1), {
    level: 'warn',
    msg: 'the database could not be brought up to date: the commit log keeps the rest for the next start',
    store: file,
    bytes: Number
  })
  other.close()
  const again = await openStore({ file, durability: 'process', form: 'database' })
  await again.close()
  t.same(verify(file), [])
  rmSync(file)
})

t.test('a start that ends what a crash left open says how much', async (t) => {
  const { store, file } = await open(t)
  await reserve(store.ledger, scopes, 9n).durable
  await store.close()
  const lines: Line[] = []
  const again = await openStore({
    file,
    durability: 'process',
    form: 'database',
    log: createLogger({ write: (line) => lines.push(JSON.parse(line) as Line) })
  })
  t.match(lines, [
    {
      level: 'warn',
      msg: 'the last process left requests open: they were ended and charged by estimate',
      requests: 1,
      store: file
    }
  ])
  await again.close()
})

/** Makes writes to the commit log fail while `fails` says so. */
function failWrites(t: Test, fails: () => string | undefined): void {
  const { write } = fs
  fs.write = ((...call: unknown[]) => {
    // Notes in the other segment are written by the way, and nobody hears of one that fails.
    const code = call[4] === noteAt ? undefined : fails()
    if (code === undefined) return (write as (...call: unknown[]) => void)(...call)
    process.nextTick(call.at(-1) as (error: Error) => void, new Error(`${code}: no luck, write`))
  }) as typeof write
  syncBuiltinESMExports()
  t.teardown(() => {
    fs.write = write
    syncBuiltinESMExports()
  })
}

t.test(
  'a commit log that cannot be written is said once, however often it is tried, and once when it can',
  async (t) => {
    const { store, file, lines } = await open(t)
    let code: string | undefined = 'ENOSPC'
    failWrites(t, () => code)
    const settled = settle(store, reserve(store.ledger, scopes, 9n), 4)
    await eventually(() => store.health().failures >= 4, 10_000)
    t.match(store.health(), {
      healthy: false,
      troubles: [{ ailment: 'log', refuses: true, cause: 'the disk is full' }]
    })
    store.requests.append(record())
    store.requests.append(record())
    code = undefined
    await settled.catch(() => {})
    await eventually(() => store.health().healthy)
    store.requests.append(record())
    t.same(said(lines), [
      'error the commit log cannot be written: new requests are refused',
      'warn request records are not kept, as the disk is too slow or fails',
      'info the commit log is written again',
      'info request records are kept again'
    ])
    t.match(lines[0], { store: file, cause: 'the disk is full', remedy: /make room/, error: /ENOSPC/ })
    await store.close()
  }
)

t.test('a disk that fails every other write does not flood the log', async (t) => {
  const { store, lines } = await open(t)
  let writes = 0
  failWrites(t, () => (++writes % 2 === 0 ? 'EIO' : undefined))
  for (let i = 0; i < 10; i++) await settle(store, await eventuallyReserved(store), 4)
  t.ok(store.health().failures >= 5, `${store.health().failures} failures`)
  t.same(said(lines), [
    'error the commit log cannot be written: new requests are refused',
    'info the commit log is written again'
  ])
  await store.close()
})

async function eventuallyReserved(store: Store): Promise<ReturnType<typeof reserve>> {
  await eventually(() => store.health().healthy)
  return reserve(store.ledger, scopes, 9n)
}
