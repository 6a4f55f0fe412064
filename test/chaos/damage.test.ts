// Files of a store that are damaged, missing, older or swapped: a start says so and names the file, or nothing is lost.
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openDatabase } from '../../core/store/embedded/files/sqlite.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import type { Store } from '../../core/store/store.ts'
import { reserve, scope, settle } from '../core/store/embedded/sample.ts'
import { chance, long } from '../money/rig.ts'
import { edit, filesIn, harmsBy, outcomeOf, Trials } from './damaging.ts'
import type { Image } from './damaging.ts'

t.setTimeout(long ? 1_800_000 : 600_000)

const random = chance(Number(process.env['SLUICE_SEED'] ?? 20261122))
const home = t.testdir()
const endings = ['', '-wal', '.log0', '.log1'] as const
type Ending = (typeof endings)[number]

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
const harms = harmsBy(random)

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

  store = await openStore({ file, durability: 'process', form: 'database' })
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
  store = await openStore({ file, durability: 'process', form: 'database' })
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

/** Both segments for each other, which only changes their names. */
function swap(folder: string): boolean {
  const [first, second] = ['.log0', '.log1'].map((ending) => join(folder, `sluice.db${ending}`)) as [string, string]
  const [one, two] = [readFileSync(first), readFileSync(second)]
  writeFileSync(first, two)
  writeFileSync(second, one)
  return true
}

const trials = new Trials(home, (folder) => endings.map((ending) => join(folder, `sluice.db${ending}`)))

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
  const before = filesIn(dirname(cut))
  await t.rejects(openStore({ file: cut, durability: 'process', form: 'database' }), {
    message: /sluice\.db is cut off: it ends with page \d+ of \d+/
  })
  t.same(filesIn(dirname(cut)), before, 'and leaves all files as they are')

  const mixed = join(copyOf(images.get('stopped')!, 'mixed'), 'sluice.db')
  const database = openDatabase(mixed, 'process')
  database.exec('PRAGMA user_version = 1')
  database.close()
  await t.rejects(openStore({ file: mixed, durability: 'process', form: 'database' }), {
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
    const outcome = await trials.run(image, `cut at ${cut} of ${size}`, (folder) =>
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
    const outcome = await trials.run(image, what, run)
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
    trials.counts.mended > 0,
    `${trials.counts.mended} of those refused were mended, ${trials.counts.saved} of them without a loss; ${trials.counts.without} need a backup`
  )
})
