// What leaves a journal in segments: the records that the database has let go of, and no charge with them.
import { rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { backUp } from '../../../../../core/store/embedded/care/backup.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { volumeFolder } from '../../../../../core/store/embedded/journal/volume.ts'
import { listNumbered } from '../../../../../core/store/embedded/segments/folder.ts'
import { framesOf, sealedSourcesOf } from '../../../../../core/store/embedded/segments/frames.ts'
import type { SourceOfFrames } from '../../../../../core/store/embedded/segments/frames.ts'
import { surveyJournal } from '../../../../../core/store/embedded/segments/journal-survey.ts'
import { checkVolume } from '../../../../../core/store/embedded/segments/sealing.ts'
import { thinning } from '../../../../../core/store/embedded/segments/thinning.ts'
import { Volume } from '../../../../../core/store/embedded/segments/volume.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { OwnStore, StoreOptions } from '../../../../../core/store/embedded/store.ts'
import type { Keeping } from '../../../../../core/store/embedded/upkeep/upkeep.ts'
import { eventually } from '../../../../kit/probe.ts'
import { forms } from '../forms.ts'
import { noon, query, reserve, scope, settle } from '../sample.ts'

t.setTimeout(300_000)

const day = 86_400_000
const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]
const journal = { age: 1e6 * day, size: 2 ** 50, rows: 500 }
const keeping: Keeping = { requests: { age: 10 * day, size: 2 ** 50 }, journal, patience: 0, lag: 0 }

function open(file: string, now: number, more: Partial<StoreOptions> = {}): Promise<OwnStore> {
  return openStore({ file, durability: 'process', keeping, now: () => now, ...forms.journal.options, ...more })
}

/** Has so many requests charged and recorded. */
async function serve(store: OwnStore, count: number, time: number): Promise<void> {
  for (let done = 0; done < count; done += 500) {
    const held = Array.from({ length: 500 }, () => reserve(store.ledger, scopes, 9n, { time }))
    await Promise.all(held.map((one) => settle(store, one, 4)))
    await store.flush()
  }
}

const volumesOf = (file: string): Volume[] =>
  listNumbered(volumeFolder(file)).flatMap(({ kind, path }) => (kind === 'volume' ? [new Volume(path)] : []))
const recordsIn = (volume: Volume): number =>
  [...volume.frames(0)].reduce((sum, { batch }) => sum + batch.records.length, 0)

/** Has requests of a month ago charged until there are so many volumes, and more of them than a block of rows has. */
async function sealed(file: string, store: OwnStore, volumes: number): Promise<void> {
  await serve(store, 4000, noon - 30 * day)
  await eventually(async () => {
    await serve(store, 500, noon - 30 * day)
    return volumesOf(file).length >= volumes
  }, 60_000)
}

/** A store that was used a month ago. */
async function old(t: Test): Promise<string> {
  const file = join(t.testdir(), 'sluice.db')
  const before = await open(file, noon - 30 * day)
  await sealed(file, before, 3)
  await before.close()
  // Each end is a checkpoint. Segments that are in front of two of them are given up.
  for (let i = 0; i < 2; i++) {
    const next = await open(file, noon - 30 * day)
    await serve(next, 500, noon - 30 * day)
    await next.close()
  }
  return file
}

/** Uses it today until its first volume is thinned. */
async function untilThinned(file: string): Promise<OwnStore> {
  const store = await open(file, noon)
  // The journal looks at the database when something is brought into it.
  await eventually(async () => {
    await serve(store, 500, noon)
    return volumesOf(file)[0]!.contents.unrecorded > 0
  }, 60_000)
  return store
}

t.test('records that are let go of leave the volumes, and entries stay', async (t) => {
  const file = await old(t)
  const store = await untilThinned(file)
  const [first] = volumesOf(file)
  t.equal(recordsIn(first!), 0)
  const entries = Number(query(file, 'SELECT count(*) AS n FROM journal')[0]!['n'])
  t.ok(entries >= 6500)
  t.same(verify(file), [], 'while it goes on')
  const { data } = await store.requests.list({ limit: 1000, tenant: 'acme' })
  t.ok(data.length >= 500)
  await store.close()
  t.same(verify(file), [])
  const thick = volumesOf(file).filter(({ contents }) => contents.unrecorded === 0)
  for (const one of thick) t.ok(recordsIn(one) > 0)

  const copy = join(dirname(file), 'copy.db')
  await backUp(file, copy, {})
  t.same(verify(copy), [], 'a copy of it is whole')
  t.ok(volumesOf(copy)[0]!.contents.unrecorded > 0)
})

t.test('a volume that is thinned while somebody reads the journal is read as it is then', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  // Of several blocks each.
  const size = 2 * 1024 * 1024
  const store = await open(file, noon, { segments: { least: size, most: size } })
  await eventually(async () => {
    await serve(store, 1000, noon)
    return volumesOf(file).length >= 2
  }, 60_000)
  await store.close()
  const folder = volumeFolder(file)
  const found = surveyJournal(folder)
  const sources = sealedSourcesOf(found)
  const numbersIn = (from: SourceOfFrames): number[] =>
    [...framesOf(from, from.head.after)].map(({ batch }) => batch.number)
  const numbers = sources.map(numbersIn)
  const [first, ...others] = found.volumes as [Volume, ...Volume[]]
  const begun = first.frames(0)
  const before = begun.next().value!
  for (const volume of found.volumes) {
    const steps = thinning(folder, volume, { ordinal: 99, unrecorded: 1, answers: 0, now: 0 }, 'process')
    while (steps.next().done !== true);
  }
  t.same(
    [before, ...begun].map(({ batch }) => batch.number),
    numbers[0],
    'what was begun ends as it was'
  )
  t.same(sources.map(numbersIn), numbers)
  for (const volume of found.volumes) t.equal(checkVolume(volume), undefined)
  for (const volume of others) t.equal(recordsIn(volume), 0)
})

t.test('a database that is made anew of it has the same money, and what is left of the records', async (t) => {
  const file = await old(t)
  const store = await untilThinned(file)
  await store.close()
  const [balances, spend] = ['balance', 'spend_day'].map((table) =>
    JSON.stringify(query(file, `SELECT * FROM ${table}`), text)
  )
  const records = query(file, 'SELECT count(*) AS n FROM request')[0]!['n']
  for (const ending of ['', '-wal', '-shm']) rmSync(`${file}${ending}`, { force: true })
  await (await open(file, noon, { keeping: undefined })).close()
  t.same(verify(file), [])
  t.equal(JSON.stringify(query(file, 'SELECT * FROM balance'), text), balances)
  t.equal(JSON.stringify(query(file, 'SELECT * FROM spend_day'), text), spend)
  t.ok(Number(query(file, 'SELECT count(*) AS n FROM request')[0]!['n']) >= Number(records))
})

t.test('answers that may be given again keep their volume as it is', async (t) => {
  const file = await old(t)
  const answers = { age: 40 * day, size: 2 ** 40 }
  const patient = await open(file, noon, { keeping: { ...keeping, answers } })
  await eventually(async () => {
    await serve(patient, 500, noon)
    return Number(query(file, 'SELECT unrecorded FROM head')[0]!['unrecorded']) > 0
  }, 60_000)
  for (let i = 0; i < 3; i++) await serve(patient, 500, noon)
  t.equal(volumesOf(file)[0]!.contents.unrecorded, 0)
  await patient.close()
  await (await untilThinned(file)).close()
})

function text(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}
