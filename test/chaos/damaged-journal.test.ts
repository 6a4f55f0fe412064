// Files of a store whose journal is in segments that are damaged, missing, older or swapped: a start says so and names
// the file, or nothing is lost.
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openDatabase } from '../../core/store/embedded/files/sqlite.ts'
import { volumeFolder } from '../../core/store/embedded/journal/volume.ts'
import { listNumbered, reachPath } from '../../core/store/embedded/segments/folder.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import type { Store } from '../../core/store/store.ts'
import { begunIn, image as imageOf } from '../core/store/embedded/forms.ts'
import { reserve, scope, settle } from '../core/store/embedded/sample.ts'
import { eventually } from '../kit/probe.ts'
import { chance, long } from '../money/rig.ts'
import { harmsBy, outcomeOf, Trials } from './damaging.ts'
import type { Image } from './damaging.ts'

t.setTimeout(long ? 1_800_000 : 600_000)

const random = chance(Number(process.env['SLUICE_SEED'] ?? 20261128))
const home = t.testdir()
const harms = harmsBy(random)
const segments = { least: 16 * 1024, most: 64 * 1024 }
const images = new Map<string, Image>()
const charges = new Map<string, bigint>()

async function charge(store: Store, output: number): Promise<void> {
  const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]
  const reservation = reserve(store.ledger, scopes, 1000n)
  await settle(store, reservation, output)
  charges.set(reservation.requestId, BigInt(output))
}

/** Charges in batches of their own, and then many in one. */
async function several(store: Store, alone: number, together = 0): Promise<void> {
  for (let i = 0; i < alone; i++) await charge(store, 1 + random(900))
  await Promise.all(Array.from({ length: together }, () => charge(store, 7)))
}

/** Charges enough for so many volumes, and waits for those. */
async function fill(store: Store, file: string, volumes: number): Promise<void> {
  // A segment ends when the next one is ready, which takes as long as the disk takes.
  while (begunIn(file) < volumes + 2) {
    await several(store, 5, 100)
    await store.flush()
  }
  await eventually(() => listNumbered(volumeFolder(file)).filter(({ kind }) => kind === 'volume').length >= volumes)
}

t.before(async () => {
  const file = join(home, 'sluice.db')
  const options = { file, durability: 'process', form: 'segments', segments } as const
  let older = ''
  const image = async (name: string): Promise<void> => {
    // The note how far the log has gone may be some milliseconds late.
    await sleep(60)
    const folder = dirname(imageOf(file))
    images.set(name, { folder, older: older || folder, charges: new Map(charges) })
    older = folder
  }
  let store = await openStore(options)
  await several(store, 6)
  await store.flush()
  await image('first batches, all in the database')
  await several(store, 20)
  await image('more batches of the first segment')
  await fill(store, file, 2)
  await image('several segments')
  await store.close()
  await image('stopped')
  store = await openStore(options)
  await image('started again')
  await several(store, 10)
  await store.flush()
  const reader = openDatabase(file, 'process')
  reader.exec('BEGIN IMMEDIATE')
  for (let i = 0; i < 2; i++) await several(store, 5, 100)
  await image('a database that is behind')
  reader.exec('ROLLBACK')
  reader.close()
  await store.close()
  store = await openStore(options)
  await fill(store, file, 4)
  await store.close()
  store = await openStore(options)
  await several(store, 10)
  await image('behind two checkpoints')
  await store.close()
})

/** The files of an image, by what they are in it. Of each kind the first, the last, and the last but one. */
const roles: Readonly<Record<string, (file: string) => string | undefined>> = {
  'the database': (file) => file,
  'its write-ahead log': (file) => `${file}-wal`,
  'the note': (file) => reachPath(volumeFolder(file)),
  ...Object.fromEntries(
    (['segment', 'volume', 'checkpoint'] as const).flatMap((kind) =>
      [0, -2, -1].map((at) => [
        `${kind} ${at}`,
        (file: string) =>
          listNumbered(volumeFolder(file))
            .filter((one) => one.kind === kind)
            .at(at)?.path
      ])
    )
  )
}

// SQLite moves a write-ahead log into its database when nobody has that open.
const trials = new Trials(home, (folder) => {
  const file = join(folder, 'sluice.db')
  return Object.values(roles)
    .flatMap((of) => of(file) ?? [])
    .filter((path) => path !== `${file}-wal`)
})

/** The last two segments for each other. */
function swap(folder: string): boolean {
  const [one, other] = [roles['segment -1'], roles['segment -2']].map((of) => of!(join(folder, 'sluice.db')))
  if (one === undefined || other === undefined || one === other) return false
  const bytes = readFileSync(one)
  writeFileSync(one, readFileSync(other))
  writeFileSync(other, bytes)
  return true
}

t.test('what was left by a crash is whole', async (t) => {
  for (const [name, { folder, charges: expected }] of images) {
    const copy = join(home, `whole ${name}`)
    cpSync(folder, copy, { recursive: true })
    t.same(await outcomeOf(join(copy, 'sluice.db'), expected), { refused: undefined, breaches: [], lost: 0 }, name)
  }
})

t.test('whatever happens to one file, nothing that was acknowledged is lost without a word', async (t) => {
  const cases = [...images].flatMap(([name, image]) => [
    ...Object.entries(roles).flatMap(([role, of]) =>
      Object.entries(harms).map(([kind, harm]) => ({
        what: `${name}: ${role} ${kind}`,
        image,
        run(folder: string): boolean {
          const path = of(join(folder, 'sluice.db'))
          return path !== undefined && existsSync(path) && harm(path, path.replace(folder, image.older))
        }
      }))
    ),
    { what: `${name}: the last two segments swapped`, image, run: swap }
  ])
  const chosen = long ? cases : cases.filter((_, index) => index % 19 === 4)
  let [refused, whole, told] = [0, 0, 0]
  for (const { what, image, run } of chosen) {
    const outcome = await trials.run(image, what, run)
    if (!outcome) continue
    if (outcome.refused !== undefined) refused++
    else if (outcome.breaches.length > 0) told++
    else whole++
  }
  const { mended, saved, without } = trials.counts
  t.ok(
    refused > 0 && whole > 0,
    `${chosen.length} cases: ${refused} refused to start, ${whole} lost nothing, ${told} are named by verify`
  )
  t.ok(mended > 0, `${mended} of those refused were mended, ${saved} of them without a loss; ${without} need a backup`)
})
