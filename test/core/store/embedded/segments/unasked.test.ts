// A store with a commit log becomes one with a journal in segments although nobody asked, if that is soon done: once,
// and whatever becomes of it the store goes on.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { backUp } from '../../../../../core/store/embedded/care/backup.ts'
import { convert } from '../../../../../core/store/embedded/care/conversion.ts'
import { folderFor, restore } from '../../../../../core/store/embedded/care/restore.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { openDatabase } from '../../../../../core/store/embedded/files/sqlite.ts'
import { attemptPath, contentsOf, stagedPath } from '../../../../../core/store/embedded/files/swap.ts'
import { volumeFolder } from '../../../../../core/store/embedded/journal/volume.ts'
import { hasJournal } from '../../../../../core/store/embedded/segments/folder.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { OwnStore, StoreOptions } from '../../../../../core/store/embedded/store.ts'
import { createLogger } from '../../../../../core/telling/log.ts'
import { contentOf, fullStore } from '../../move/sample.ts'
import { rewind } from '../earlier.ts'
import { forms, image } from '../forms.ts'
import { noon, query, reserve, scope, settle } from '../sample.ts'

t.setTimeout(600_000)

/** What a start has said, and which troubles the store has. */
interface Started {
  readonly store: OwnStore
  readonly said: string
  readonly troubles: readonly { readonly cause: string; readonly remedy: string; readonly error: string }[]
}

/** Starts as a gateway does whose file says nothing of the form. */
async function start(file: string, options: Partial<StoreOptions> = {}): Promise<Started> {
  const lines: string[] = []
  const log = createLogger({ level: 'info', write: (line) => void lines.push(line) })
  const store = await openStore({ file, durability: 'process', now: () => noon, takesOver: 1_000_000, log, ...options })
  return { store, said: lines.join(''), troubles: store.health().troubles }
}

/** Starts, makes a charge, and ends in an orderly way. */
async function live(file: string, options: Partial<StoreOptions> = {}): Promise<Omit<Started, 'store'>> {
  const { store, ...found } = await start(file, options)
  await settle(store, reserve(store.ledger, [scope('tenant', 'acme', 10n ** 12n, 'month')], 9n), 4)
  await store.close()
  return found
}

const old = (file: string): Promise<Omit<Started, 'store'>> => live(file, forms.log.options)
const inSegments = (file: string): boolean => hasJournal(volumeFolder(file))
const charges = (file: string): number => Number(query(file, 'SELECT count(*) AS n FROM journal')[0]!['n'])

/** The folder with what was there before, if there is one. */
function asideOf(file: string): string | undefined {
  const name = readdirSync(dirname(file)).find((one) => one.startsWith(`${basename(file)}.replaced-`))
  return name === undefined ? undefined : join(dirname(file), name)
}

t.test('a store that was closed is taken over, once, and its old files are as they were', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await fullStore(file)
  const [before, bytes] = [contentOf(file), readFileSync(file)]
  const { store, said, troubles } = await start(file)
  t.match(said, /verifying the journal.*was taken over/s)
  t.same(troubles, [])
  await store.close()
  t.ok(inSegments(file))
  t.same(contentOf(file), before)
  t.notOk(existsSync(attemptPath(file)))
  t.ok(readFileSync(join(asideOf(file)!, 'sluice.db')).equals(bytes), 'an earlier version goes on with them')
  const again = await live(file)
  t.notMatch(again.said, /taken over/)
  t.same(again.troubles, [])
  t.same(verify(file), [])
})

t.test('so is one of an earlier version, and that version goes on with the old files', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await old(file)
  rewind(file, 11)
  const { said } = await live(file)
  t.match(said, /was taken over/)
  t.equal(charges(file), 2)
  t.same(verify(file), [])
  const version = 'SELECT max(version) AS version FROM schema_migrations'
  const aside = join(asideOf(file)!, 'sluice.db')
  t.match(query(aside, version), [{ version: 11n }])

  // And so does this one, when they are brought back and are to stay as they are.
  const { lost } = await restore(file, aside)
  t.match(lost, { charges: 1 })
  await live(file, { form: 'database' })
  t.notOk(inSegments(file))
  t.equal(charges(file), 2)
  t.same(verify(file), [])
})

t.test('it stays as it is where nobody may wait, or it was told to, or has another reason', async (t) => {
  const base = t.testdir()
  const file = join(base, 'sluice.db')
  await old(file)
  const stays = async (options: Partial<StoreOptions>, why: RegExp | undefined, of = file): Promise<void> => {
    const { said, troubles } = await live(of, options)
    t.notOk(inSegments(of))
    if (why) t.match(said, why)
    else t.equal(said, '')
    t.same([troubles, asideOf(of), existsSync(attemptPath(of))], [[], undefined, false], 'nothing was tried')
  }
  await stays({ takesOver: 0 }, undefined)
  await stays({ form: 'database' }, undefined)
  await stays({ busy: true }, undefined)
  await stays({ takesOver: 7 }, /stays in the database.*large.*form: segments.* `database` leaves it/)

  const running = await openStore({ file, durability: 'process', now: () => noon, form: 'database' })
  const killed = image(file)
  await running.close()
  await stays({}, /stays in the database.*was killed/, killed)
  await live(killed)
  t.ok(inSegments(killed), 'after an orderly end')

  const database = openDatabase(file, 'process')
  database.exec("INSERT INTO journal_origin SELECT 1, 1, 'node', 1, hash FROM journal WHERE seq = 1")
  database.close()
  await stays({}, /stays in the database.*PostgreSQL/)
})

t.test('an attempt that fails changes nothing, is not repeated, and is told until somebody decides', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  await old(file)
  const alter = (by: number): void => {
    const database = openDatabase(file, 'process')
    database.exec(`UPDATE balance SET posted = posted + ${by}`)
    database.close()
  }
  alter(3)
  for (const attempt of [1, 2]) {
    const { said, troubles } = await live(file)
    t.equal(/verifying the journal/.test(said), attempt === 1, `start ${attempt}`)
    t.match(said, /could not be moved into segments.*form: segments.*cannot be taken over: I1/s)
    t.match(troubles, [{ remedy: /form: segments.*`database`/, error: /not taken over.*cannot be taken over: I1/ }])
    t.equal(troubles.length, 1)
    t.notOk(inSegments(file))
    t.equal(charges(file), 1 + attempt, 'it goes on')
    t.equal(asideOf(file), undefined)
  }
  t.same((await live(file, { form: 'database' })).troubles, [], 'it is to stay')
  alter(-3)
  t.same(verify(file), [])
  const asked = await live(file, { form: 'segments' })
  t.match([asked.troubles, asked.said], [[], /was taken over/])
  t.ok(inSegments(file))
  t.same((await live(file)).troubles, [])
  t.equal(charges(file), 6)
  t.same(verify(file), [])
})

t.test('killed at any moment, it is the one or the other, and the next start does not try again', async (t) => {
  const base = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file: base, durability: 'process', ...forms.log.options })
  for (let i = 0; i < 300; i++)
    await settle(store, reserve(store.ledger, [scope('tenant', 'acme', 10n ** 12n, 'month')], 1000n), 1 + (i % 7))
  await store.close()
  /** Returns the milliseconds from its beginning to its end. */
  const run = async (file: string, killAfter = Infinity): Promise<number> => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'taking.ts'), file], {
      stdio: ['ignore', 'pipe', 'inherit']
    })
    const ended = once(child, 'exit')
    await once(createInterface({ input: child.stdout }), 'line')
    const began = performance.now()
    if (killAfter < Infinity) await Promise.race([ended, sleep(killAfter).then(() => child.kill('SIGKILL'))])
    await ended
    return performance.now() - began
  }
  const took = await run(image(base))
  const rounds = process.env['SLUICE_LONG'] === undefined ? 8 : 60
  const found: string[] = []
  for (let round = 0; round < rounds; round++) {
    const file = image(base)
    await run(file, (took * round) / rounds)
    const tried = existsSync(attemptPath(file))
    const { said, troubles } = await live(file)
    const moved = inSegments(file)
    if (tried && !moved) {
      t.match(troubles, [{ error: /was ended while it was at work/ }])
      t.notMatch(said, /verifying the journal/)
    } else t.same(troubles, [])
    found.push(tried ? (moved ? 'completed' : 'stays') : 'not begun or done')
    t.equal(charges(file), 301)
    t.same(verify(file), [])
    const left = readdirSync(dirname(file)).filter((name) => /restor|\.part|\.new$/.test(name))
    t.same(left, [], 'nothing is left of it')
  }
  t.comment(`took ${took.toFixed()} ms: ${found.join(', ')}`)
  t.ok(found.includes('stays'), 'a kill has met it at work')
})

t.test('ended after any step of the exchange of files, the next start completes it', async (t) => {
  const made = join(t.testdir(), 'made', 'sluice.db')
  mkdirSync(dirname(made))
  await fullStore(made)
  const before = contentOf(made)
  writeFileSync(attemptPath(made), '')
  await backUp(made, stagedPath(made))
  convert(stagedPath(made), () => {})
  const names = contentsOf(made)
  const staged = ['.journal', '.results', ''].filter((ending) => existsSync(`${stagedPath(made)}${ending}`))
  t.ok(names.includes('sluice.db.takeover'))
  for (let done = 0; done <= names.length + staged.length; done++) {
    const folder = mkdtempSync(join(dirname(made), '../step-'))
    cpSync(dirname(made), folder, { recursive: true })
    const file = join(folder, 'sluice.db')
    const aside = folderFor(file, noon)
    writeFileSync(`${file}.restore`, JSON.stringify({ source: file, aside, names }))
    for (const name of names.slice(0, done)) renameSync(join(folder, name), join(aside, name))
    for (const ending of staged.slice(0, Math.max(0, done - names.length)))
      renameSync(`${stagedPath(file)}${ending}`, `${file}${ending}`)
    const { store, troubles } = await start(file)
    t.same(troubles, [])
    await store.close()
    t.ok(inSegments(file), `after ${done} steps`)
    t.same(contentOf(file), before)
    t.notOk(existsSync(attemptPath(file)) || existsSync(`${file}.restore`))
  }
})
