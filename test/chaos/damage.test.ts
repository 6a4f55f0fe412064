// Files of a store that are damaged, missing, older or swapped: a start says so and names the file, or nothing is lost.
import { hash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Ownership } from '../../core/store/embedded/files/lock.ts'
import { planRepair, repair } from '../../core/store/embedded/care/repair.ts'
import type { RepairPlan } from '../../core/store/embedded/care/repair.ts'
import { openDatabase } from '../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import type { Store } from '../../core/store/store.ts'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { query, reserve, scope, settle } from '../core/store/embedded/sample.ts'
import { chance, long } from '../money/rig.ts'

t.setTimeout(long ? 1_800_000 : 600_000)

const random = chance(Number(process.env['SLUICE_SEED'] ?? 20261122))
const home = t.testdir()
const endings = ['', '-wal', '.log0', '.log1'] as const
type Ending = (typeof endings)[number]

/** A store as it was left, an earlier image of it, and what had been acknowledged. */
interface Image {
  folder: string
  older: string
  charges: ReadonlyMap<string, bigint>
}

const charges = new Map<string, bigint>()

/** Charges a request, and knows when it was acknowledged. */
async function charge(store: Store, output: number): Promise<void> {
  const reservation = reserve(
    store.ledger,
    [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')],
    1000n
  )
  await settle(store, reservation, output)
  charges.set(reservation.requestId, BigInt(output))
}

async function several(store: Store, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await charge(store, 1 + random(900))
}

/** The files as a crash at this moment would leave them. */
function take(file: string, name: string): string {
  const folder = join(home, name)
  mkdirSync(folder)
  for (const ending of endings)
    if (existsSync(`${file}${ending}`)) cpSync(`${file}${ending}`, join(folder, `sluice.db${ending}`))
  return folder
}

const images = new Map<string, Image>()

t.before(async () => {
  const file = join(home, 'sluice.db')
  let older = ''
  let store: Store
  const image = (name: string): void => {
    const folder = take(file, name)
    images.set(name, { folder, older: older || folder, charges: new Map(charges) })
    older = folder
  }
  // Longer than the other segment takes to be told.
  const told = (): Promise<void> => sleep(60)

  store = await openStore({ file, durability: 'process' })
  await several(store, 5)
  await store.flush()
  await told()
  image('first batches, all applied')
  await several(store, 5)
  await told()
  image('more in the log')
  for (let turn = 0; turn < 4; turn++) {
    await several(store, 3)
    await store.flush()
  }
  await told()
  image('several turns of the log')
  await store.close()
  image('stopped')
  store = await openStore({ file, durability: 'process' })
  image('started again')
  await several(store, 5)
  await store.flush()
  const reader = openDatabase(file, 'process')
  reader.exec('BEGIN IMMEDIATE')
  for (let turn = 0; turn < 2; turn++) {
    await several(store, 6)
    await store.flush()
  }
  await told()
  image('both segments full')
  reader.exec('ROLLBACK')
  reader.close()
  for (let i = 0; i < 6; i++) {
    await Promise.all(Array.from({ length: 200 }, () => charge(store, 7)))
    await store.flush()
  }
  await told()
  image('after a checkpoint')
  await store.close()
})

/** What is done to a file. Returns false when that changes nothing. */
type Harm = (path: string, older: string) => boolean

const edit =
  (change: (bytes: Buffer) => Buffer): Harm =>
  (path) => {
    if (!existsSync(path)) return false
    const bytes = readFileSync(path)
    const changed = change(Buffer.from(bytes))
    writeFileSync(path, changed)
    return !changed.equals(bytes)
  }

/** Turns one bit around, at a part of the file or of the bytes that are not zero. */
const flip = (part: number): Harm =>
  edit((bytes) => {
    let end = bytes.length
    while (end > 0 && bytes[end - 1] === 0) end--
    if (end > 0) bytes[Math.min(end - 1, Math.floor(end * part))]! ^= 1 << random(8)
    return bytes
  })

const harms: Record<string, Harm> = {
  missing: (path) => existsSync(path) && (rmSync(path), true),
  empty: edit(() => Buffer.alloc(0)),
  'cut in half': edit((bytes) => bytes.subarray(0, bytes.length >> 1)),
  'without its last bytes': edit((bytes) => bytes.subarray(0, -40)),
  'a bit at its beginning': flip(0.001),
  'a bit in the middle': flip(0.5),
  'a bit near its end': flip(0.97),
  'its last byte': flip(1),
  'a page of zeros': edit((bytes) => bytes.fill(0, Math.min(bytes.length, 8192), Math.min(bytes.length, 12288))),
  older: (path, older) =>
    existsSync(path) &&
    existsSync(older) &&
    !readFileSync(path).equals(readFileSync(older)) &&
    (cpSync(older, path), true)
}

/** Both segments for each other, which only changes their names. */
function swap(folder: string): boolean {
  const [first, second] = ['.log0', '.log1'].map((ending) => join(folder, `sluice.db${ending}`)) as [string, string]
  const [one, two] = [readFileSync(first), readFileSync(second)]
  writeFileSync(first, two)
  writeFileSync(second, one)
  return true
}

/** What became of a damaged store. `lost`: acknowledged charges that are not in the journal with their amount. */
interface Outcome {
  refused: string | undefined
  breaches: readonly string[]
  lost: number
}

const files = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => !/-shm|\.lock/.test(name))
    .map((name) => `${name} ${hash('sha256', readFileSync(join(folder, name)))}`)

async function outcomeOf(file: string, expected: ReadonlyMap<string, bigint>): Promise<Outcome> {
  try {
    await (await openStore({ file, durability: 'process' })).close()
  } catch (error) {
    return { refused: (error as Error).message, breaches: [], lost: 0 }
  }
  const stored = new Map(
    query(file, "SELECT request_id, amount FROM journal WHERE class = 'terminal'").map((row) => [
      row['request_id'],
      row['amount']
    ])
  )
  const lost = [...expected].filter(([id, amount]) => stored.get(id) !== amount).length
  return { refused: undefined, breaches: verify(file).map(({ invariant, row }) => `${invariant} ${row}`), lost }
}

let trials = 0

/** Nothing is lost without a word. Returns what happened, undefined when the damage changed nothing. */
async function trial(image: Image, what: string, harm: (folder: string) => boolean): Promise<Outcome | undefined> {
  const folder = join(home, `trial-${trials++}`)
  cpSync(image.folder, folder, { recursive: true })
  const file = join(folder, 'sluice.db')
  if (!harm(folder)) return undefined
  const sizes = endings.map((ending) => statSync(`${file}${ending}`, { throwIfNoEntry: false })?.size)
  const outcome = await outcomeOf(file, image.charges)
  const { refused, breaches, lost } = outcome
  if (refused === undefined) {
    if (lost > 0 && breaches.length === 0) t.fail(`${what}: ${lost} charges are lost, and nobody says so`)
  } else if (!refused.includes(file)) t.fail(`${what}: the refusal names no file: ${refused}`)
  else if (sizes.some((size, index) => size !== undefined && size > 0 && !existsSync(`${file}${endings[index]}`)))
    t.fail(`${what}: a start that refused took a file away`)
  if (refused !== undefined) await mend(what, folder, image.charges)
  if (process.env['SLUICE_LONG'])
    t.comment(`${what}: ${refused ?? (breaches.length > 0 ? breaches.slice(0, 2).join(', ') : 'nothing is lost')}`)
  rmSync(folder, { recursive: true })
  return outcome
}

const counts = { mended: 0, saved: 0, without: 0 }

/** A repair changes nothing until it is told to, loses no more than it says, and leaves a store that starts. */
async function mend(what: string, folder: string, expected: ReadonlyMap<string, bigint>): Promise<void> {
  const file = join(folder, 'sluice.db')
  const owner = Ownership.take(file, { damaged: true })
  let plan: RepairPlan | undefined
  try {
    const before = files(folder)
    plan = planRepair(file)
    if (!plan) return void t.fail(`${what}: refused, and nothing to repair`)
    if (files(folder).join() !== before.join()) t.fail(`${what}: looking changed the files`)
    const sizes = plan.aside.map((path) => statSync(path).size)
    const aside = repair(file, plan, Date.now())
    if (plan.aside.some((path, index) => statSync(join(aside, basename(path))).size !== sizes[index]))
      t.fail(`${what}: what was put aside is not whole`)
  } catch (error) {
    if (!/Bring back a backup/.test((error as Error).message)) t.fail(`${what}: ${String(error)}`)
    counts.without++
    return
  } finally {
    owner.release()
  }
  const { refused, breaches, lost } = await outcomeOf(file, expected)
  // Where a price is lost, nobody can say what is due at it.
  const wrong = breaches.filter((breach) => !(breach.startsWith('I4 journal') && plan.lost.length > 0))
  if (refused !== undefined || wrong.length > 0) t.fail(`${what}: mended, and ${refused ?? wrong.join(', ')}`)
  const told =
    plan.lost.length > 0 ||
    plan.base !== 'whole' ||
    plan.foreign.batches > 0 ||
    plan.damage.some(({ text }) => text.includes('older'))
  if (lost > 0 && !told) t.fail(`${what}: the repair lost ${lost} charges and did not say so`)
  counts.mended++
  if (lost === 0) counts.saved++
}

t.test('what was left by a crash is whole', async (t) => {
  for (const [name, image] of images)
    t.same(
      await outcomeOf(join(copyOf(image, `whole ${name}`), 'sluice.db'), image.charges),
      { refused: undefined, breaches: [], lost: 0 },
      name
    )
})

t.test('a start that refuses says what is wrong before it has written anything', async (t) => {
  const cut = join(copyOf(images.get('after a checkpoint')!, 'cut'), 'sluice.db')
  harms['cut in half']!(cut, cut)
  const before = files(dirname(cut))
  await t.rejects(openStore({ file: cut, durability: 'process' }), {
    message: /sluice\.db is cut off: it ends with page \d+ of \d+/
  })
  t.same(files(dirname(cut)), before, 'and leaves all files as they are')

  const mixed = join(copyOf(images.get('stopped')!, 'mixed'), 'sluice.db')
  const database = openDatabase(mixed, 'process')
  database.exec('PRAGMA user_version = 1')
  database.close()
  await t.rejects(openStore({ file: mixed, durability: 'process' }), {
    message: /sluice\.db has pages of different moments: transaction 1 by its first page/
  })
})

t.test('wherever the write-ahead log of a young store is cut off', async (t) => {
  const image = images.get('first batches, all applied')!
  const size = statSync(join(image.folder, 'sluice.db-wal')).size
  const frame = 16_384 + 24
  const frames = Math.floor((size - 32) / frame)
  // The quick run takes every third: the last transaction alone has a dozen frames, and the commit log has all of it.
  const cuts = Array.from({ length: frames }, (_, at) => 32 + at * frame + 100).filter((_, at) => long || at % 3 === 2)
  let [refused, whole] = [0, 0]
  for (const cut of cuts) {
    const outcome = await trial(image, `cut at ${cut} of ${size}`, (folder) =>
      edit((bytes) => bytes.subarray(0, cut))(join(folder, 'sluice.db-wal'), '')
    )
    if (outcome?.refused !== undefined) refused++
    else if (outcome) whole++
  }
  // What is lost with the last transactions, the commit log has.
  t.ok(whole > 0, `of ${cuts.length} ${refused} refused to start, and ${whole} lost nothing`)
})

function copyOf(image: Image, name: string): string {
  const folder = join(home, name)
  cpSync(image.folder, folder, { recursive: true })
  return folder
}

t.test('whatever happens to one file, nothing that was acknowledged is lost without a word', async (t) => {
  const cases = [...images].flatMap(([name, image]) => [
    ...endings.flatMap((ending: Ending) =>
      Object.entries(harms).map(([kind, harm]) => ({
        what: `${name}: sluice.db${ending} ${kind}`,
        image,
        run: (folder: string) => harm(join(folder, `sluice.db${ending}`), join(image.older, `sluice.db${ending}`))
      }))
    ),
    { what: `${name}: both segments swapped`, image, run: swap }
  ])
  const chosen = long ? cases : cases.filter((_, index) => index % 9 === 4)
  let [refused, whole, told] = [0, 0, 0]
  for (const { what, image, run } of chosen) {
    const outcome = await trial(image, what, run)
    if (!outcome) continue
    if (outcome.refused !== undefined) refused++
    else if (outcome.breaches.length > 0) told++
    else whole++
  }
  t.ok(
    refused > 0 && whole > 0,
    `${chosen.length} cases: ${refused} refused to start, ${whole} lost nothing, ${told} are named by verify`
  )
  t.ok(
    counts.mended > 0,
    `${counts.mended} of those refused were mended, ${counts.saved} of them without a loss; ${counts.without} need a backup`
  )
})
