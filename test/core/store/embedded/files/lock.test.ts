// One gateway a database, by whatever name it comes and whoever removed its lock; and nobody else reads its files.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  chmodSync
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { openForReading } from '../../../../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../../core/store/store.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { query, reserve, scope, settle } from '../sample.ts'

const program = join(import.meta.dirname, '../crash.ts')

/** A process that has the store open, until it is killed. */
async function owner(t: Test, file: string): Promise<{ process: ChildProcess; kill(): Promise<void> }> {
  const child = spawn(process.execPath, [program, 'open', file], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
  }
  t.teardown(kill)
  await once(child.stdout, 'data')
  return { process: child, kill }
}

const open = (file: string): Promise<Store> => openStore({ file, durability: 'process', form: 'database' })

t.test('a gateway whose lock file is removed or put in another one’s place still owns its database', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const lock = `${file}.lock`
  const other = join(t.testdirName, 'other.db')
  await (await open(file)).close()
  await (await open(other)).close()
  cpSync(lock, `${lock}.old`)
  const gateway = await owner(t, file)
  const refusal = {
    message: `${file} is open in another process, and ${lock} is not the lock file that was made with it: stop the gateway, or whatever has the database open, and start again`
  }
  rmSync(lock)
  await t.rejects(open(file), refusal, 'removed')
  await t.rejects(open(file), refusal, 'and again: the first try left nothing that the second takes for a lock')
  rmSync(lock)
  renameSync(`${lock}.old`, lock)
  await t.rejects(open(file), refusal, 'an older copy of it')
  rmSync(lock)
  cpSync(`${other}.lock`, lock)
  await t.rejects(open(file), refusal, 'that of another store')
  rmSync(lock)
  writeFileSync(lock, '')
  await t.rejects(open(file), refusal, 'an empty one')
  writeFileSync(lock, 'no database at all'.repeat(300))
  await t.rejects(open(file), {
    message: `${file}.lock is damaged: remove it; whether a gateway runs is also seen without it`
  })
  rmSync(lock)
  await gateway.kill()
  await (await open(file)).close()
  t.same(verify(file), [], 'when the gateway is gone its database is free, lock file or not')
})

t.test('who reads a database is not in the way of a gateway', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await (await open(file)).close()
  const reader = openForReading(file)
  reader.prepare('SELECT * FROM head').get()
  await (await open(file)).close()
  reader.close()
  t.pass('it starts')
})

t.test('a folder in the place of the database is named as one, and so is a device', async (t) => {
  const folder = t.testdir()
  await t.rejects(open(folder), {
    message: `${folder} is a folder, and the store is a file: name a file in it, such as ${join(folder, 'sluice.db')}`
  })
  await t.rejects(open('/dev/null'), { message: /^\/dev\/null is no file but a device/ })
  t.strictSame(readdirSync(folder), [], 'nothing was made')
})

t.test('a database with two names is refused by both', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await (await open(file)).close()
  const link = join(t.testdirName, 'link.db')
  linkSync(file, link)
  for (const name of [file, link])
    await t.rejects(open(name), {
      message: `${name} has 2 names (hard links), and what belongs to it is found by its name: remove all but one, or copy it`
    })
  rmSync(link)
  const gateway = await owner(t, file)
  linkSync(file, link)
  rmSync(file)
  await t.rejects(
    open(link),
    { message: /link\.db is open in another process/ },
    'nor does it help to rename it under a gateway'
  )
  await gateway.kill()
  t.notOk(existsSync(`${link}.log0`), 'nothing was begun')
})

t.test('through a symbolic link it is the same store, with the same lock and the same log', async (t) => {
  const folder = t.testdir({ links: {} })
  mkdirSync(join(folder, 'data'))
  const file = join(folder, 'data', 'sluice.db')
  symlinkSync('../data/sluice.db', join(folder, 'links', 'one.db'))
  symlinkSync('data', join(folder, 'folder'))
  const names = [join(folder, 'links', 'one.db'), join(folder, 'folder', 'sluice.db'), file]
  for (const [index, name] of names.entries()) {
    const store = await open(name)
    for (const other of names) await t.rejects(open(other), { message: /is in use by process \d+ \(this one\)/ })
    await settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4)
    await store.close()
    t.match(query(file, 'SELECT count(*) AS n FROM journal'), [{ n: BigInt(index + 1) }])
  }
  t.same(readdirSync(join(folder, 'links')), ['one.db'], 'nothing lies beside the link')
  t.ok(existsSync(`${file}.log0`) && existsSync(`${file}.lock`), 'but beside the file')
})

t.test('the files are their owner’s alone, also those of an earlier version', async (t) => {
  const folder = join(t.testdir(), 'new', 'data')
  const file = join(folder, 'sluice.db')
  const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8)
  const store = await open(file)
  const inUse = readdirSync(folder).sort()
  t.same(
    inUse.map((name) => `${name} ${mode(join(folder, name))}`),
    inUse.map((name) => `${name} 600`)
  )
  t.same(
    inUse,
    ['', '-shm', '-wal', '.lock', '.log0', '.log1'].map((ending) => `sluice.db${ending}`)
  )
  t.same(
    [mode(folder), mode(join(t.testdirName, 'new'))],
    ['700', '700'],
    'and so are the folders that were made for them'
  )
  await store.close()
  for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o644)
  await (await open(file)).close()
  for (const name of readdirSync(folder)) t.equal(mode(join(folder, name)), '600', name)
})
