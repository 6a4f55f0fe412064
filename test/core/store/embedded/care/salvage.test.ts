// The repair of a damaged journal in segments: what is whole is saved, what is lost is named, and nothing is changed
// until whoever runs it says that they know.
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { Ownership } from '../../../../../core/store/embedded/files/lock.ts'
import { LedgerFile } from '../../../../../core/store/embedded/care/ledger-file.ts'
import { planRepair, repair } from '../../../../../core/store/embedded/care/repair.ts'
import type { RepairPlan } from '../../../../../core/store/embedded/care/repair.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { volumeFolder } from '../../../../../core/store/embedded/journal/volume.ts'
import { framesFrom } from '../../../../../core/store/embedded/segments/segment-head.ts'
import { listNumbered, pathOf, reachPath } from '../../../../../core/store/embedded/segments/folder.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../../../core/store/embedded/store.ts'
import { changeOf, documentKind } from '../../../../../core/store/documents.ts'
import { Disk, noDisk } from '../../../../chaos/disk.ts'
import { sluice } from '../../../../kit/command.ts'
import { eventually } from '../../../../kit/probe.ts'
import { begunIn, forms, image } from '../forms.ts'
import { query, reserve, scope, settle } from '../sample.ts'

t.setTimeout(600_000)

const scopes = [scope('tenant', 'acme', 10n ** 12n, 'month'), scope('key', 'laptop')]
const things = documentKind<{ is: string }>('thing')

function open(file: string): Promise<OwnStore> {
  return openStore({ file, durability: 'process', ...forms.journal.options })
}

async function charge(store: OwnStore, output: number): Promise<string> {
  const reservation = reserve(store.ledger, scopes, 10_000n)
  await settle(store, reservation, output)
  return reservation.requestId
}

function put(store: OwnStore, id: string, is: string | null): Promise<void> {
  return store.documents.change([changeOf(things, id, is === null ? null : { is })], { action: 'put', object: id })
}

/** Where each frame of a segment begins, and where the last one ends. */
function framesOf(path: string): number[] {
  const bytes = readFileSync(path)
  const places: number[] = []
  let at = framesFrom
  // The mark, the length of the payload, and a head of 32 bytes.
  for (; at + 32 < bytes.length && bytes.readUInt32BE(at) === 0x9e5c1f0a; at += 32 + bytes.readUInt32BE(at + 4))
    places.push(at)
  return [...places, at]
}

/** Damages the frames `first` to `last` of a segment, counted from its first one. */
function damage(path: string, first: number, last: number): void {
  const [places, bytes] = [framesOf(path), readFileSync(path)]
  bytes.fill(0x55, places[first]!, places[last + 1]!)
  writeFileSync(path, bytes)
}

function lastSegment(file: string): string {
  const begun = listNumbered(volumeFolder(file)).filter(
    ({ kind, path }) => kind === 'segment' && framesOf(path).length > 1
  )
  return begun.at(-1)!.path
}

function amounts(file: string): ReadonlyMap<string, bigint> {
  const ends = query(file, "SELECT request_id, amount FROM journal WHERE class = 'terminal'")
  return new Map(ends.map((row) => [row['request_id'] as string, row['amount'] as bigint]))
}

/** All files of a store, so that it can be seen that none was changed. */
function filesOf(file: string): ReadonlyMap<string, string> {
  const folder = dirname(file)
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return new Map(
    names
      .map(({ name, parentPath }) => join(parentPath, name))
      .filter((path) => !/\.lock|-shm|-wal/.test(path))
      .map((path) => [path, readFileSync(path).toString('base64')])
  )
}

/** A store with charges in batches of their own, one by one, and with a document that is changed among them. */
async function charged(t: { testdir(): string }, count: number): Promise<{ file: string; ids: readonly string[] }> {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    ids.push(await charge(store, 100 + i))
    if (i === 2) await put(store, 'one', 'before')
    if (i === 2) await put(store, 'gone', 'before')
    if (i === 10) await put(store, 'one', 'after')
    if (i === 10) await put(store, 'gone', null)
  }
  await store.close()
  return { file, ids }
}

async function carriedOut(t: Test, file: string): Promise<{ plan: RepairPlan; aside: string }> {
  const before = filesOf(file)
  const plan = planRepair(file)!
  t.same(filesOf(file), before, 'looking changes nothing')
  const aside = repair(file, plan, Date.now())
  t.same(
    plan.aside.map((path) => existsSync(join(aside, basename(path)))),
    plan.aside.map(() => true),
    'what was there is put aside as a whole'
  )
  return { plan, aside }
}

t.test('what is lost is named to the entry and to the nano-dollar where the database knows it', async (t) => {
  const { file, ids } = await charged(t, 20)
  // What ends with the checkpoint of the close would not be read by a start.
  for (const { kind, path } of listNumbered(volumeFolder(file))) if (kind === 'checkpoint') rmSync(path)
  const all = amounts(file)
  const segment = lastSegment(file)
  const total = framesOf(segment).length - 1
  const [first, last] = [Math.floor(total / 3), Math.floor((2 * total) / 3)]
  damage(segment, first, last)
  await t.rejects(open(file), /segment-\d+ is damaged behind byte \d+: batches \d+ to \d+ are missing/)

  const { plan } = await carriedOut(t, file)
  const { gaps, entries, balances } = plan.loss!
  t.match(plan, { base: 'mended', lost: [[first + 1, last + 1]], damage: [{ file: segment }] })
  t.match(gaps, [{ first: first + 1, last: last + 1 }])
  t.ok(gaps[0]!.since <= gaps[0]!.until!, 'and from when to when')
  const left = amounts(file)
  const lost = [...all].filter(([id]) => !left.has(id))
  t.equal(entries, lost.length, `${entries} of ${ids.length}`)
  t.ok(lost.length > 3)
  const lacking = lost.reduce((sum, [, amount]) => sum + amount, 0n)
  const of = (name: string, window: string): bigint | undefined =>
    balances!.find((one) => one.scope === name && one.window === window)?.amount
  t.equal(of('key:laptop', 'total'), lacking)
  t.equal(of('tenant:acme', new Date().toISOString().slice(0, 7)), lacking)
  t.same(verify(file), [], 'the book is in order')

  const store = await open(file)
  t.same(
    store.documents.all(things),
    [{ is: 'after' }],
    'what lost batches had changed is as it was: nothing that was taken away is back'
  )
  const more = await charge(store, 7)
  await store.close()
  t.same(verify(file), [])
  t.equal(amounts(file).get(more), 7n)
  const [told] = query(file, 'SELECT json FROM audit ORDER BY seq').slice(-1) as { json: string }[]
  t.match(JSON.parse(told!.json), { action: 'ledger.repair', lost: { gaps: [{ first: first + 1 }], entries } })
  t.equal(planRepair(file), undefined, 'nothing is damaged any more')
})

t.test('where nothing knows what was lost, that is said, and all else is saved', async (t) => {
  const { file } = await charged(t, 20)
  const all = amounts(file)
  for (const { kind, path } of listNumbered(volumeFolder(file))) if (kind === 'checkpoint') rmSync(path)
  for (const ending of ['', '-wal', '-shm']) rmSync(`${file}${ending}`, { force: true })
  damage(lastSegment(file), 9, 12)
  const { plan } = await carriedOut(t, file)
  t.match(plan.loss, { gaps: [{ first: 10, last: 13 }], entries: undefined, balances: undefined })
  t.ok(all.size - amounts(file).size <= 4)
  t.same(verify(file), [])
  await (await open(file)).close()
  t.same(verify(file), [])
})

t.test('an end that is missing is known by the note, the database or a checkpoint', async (t) => {
  for (const witness of ['note', 'database', 'checkpoint']) {
    const { file } = await charged(t, 8)
    const folder = volumeFolder(file)
    if (witness !== 'note') rmSync(reachPath(folder), { force: true })
    if (witness !== 'database') for (const ending of ['', '-wal', '-shm']) rmSync(`${file}${ending}`, { force: true })
    for (const { kind, path } of listNumbered(folder))
      if (kind === 'checkpoint' && witness !== 'checkpoint') rmSync(path)
    const segment = lastSegment(file)
    const places = framesOf(segment)
    truncateSync(segment, places.at(-3))
    const { plan } = await carriedOut(t, file)
    const batches = places.length - 1
    t.match(plan.loss!.gaps, [{ first: batches - 1, last: batches, until: undefined }], witness)
    t.equal(plan.loss!.entries !== undefined, witness !== 'note')
    t.same(verify(file), [], witness)
    await (await open(file)).close()
    t.same(verify(file), [], witness)
  }
})

t.test('holds whose end is lost are ended by estimate, and ids that were given again change no others', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  const early = reserve(store.ledger, scopes, 5000n, { estimate: { input: 10, maxOutput: 1000 } })
  early.dispatched('openai')
  await early.durable
  for (let i = 0; i < 5; i++) await charge(store, 50)
  await settle(store, early, 900)
  for (let i = 0; i < 5; i++) await charge(store, 60)
  const late = reserve(store.ledger, scopes, 5000n, { estimate: { input: 10, maxOutput: 1000 } })
  late.dispatched('openai')
  await late.durable
  await charge(store, 70)
  await store.flush()
  const copy = image(file)
  await store.close()
  for (const ending of ['', '-wal', '-shm']) rmSync(`${copy}${ending}`, { force: true })
  const segment = lastSegment(copy)
  const ends = framesOf(segment)
  // The batch that ends the early one is somewhere in the middle.
  damage(segment, Math.floor(ends.length / 2) - 1, Math.floor(ends.length / 2) + 1)
  await carriedOut(t, copy)
  const before = amounts(copy)
  await (await open(copy)).close()
  t.same(verify(copy), [])
  const after = amounts(copy)
  t.ok(after.has(early.requestId) && after.has(late.requestId), 'both have ended')
  t.notOk(before.has(late.requestId))
  t.same(query(copy, 'SELECT id FROM reservation'), [])
})

t.test('of a volume that is damaged without its segment, all sound blocks are saved', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await open(file)
  while (begunIn(file) < 5) {
    await Promise.all(Array.from({ length: 100 }, () => charge(store, 7)))
    await store.flush()
  }
  const volumes = () => listNumbered(volumeFolder(file)).filter(({ kind }) => kind === 'volume')
  await eventually(() => volumes().length >= 3)
  await store.close()
  const all = amounts(file)
  const [, second, third] = volumes()
  for (const harm of ['a block', 'the footer', 'all of it'] as const) {
    const copy = join(dirname(image(file)), 'sluice.db')
    const path = join(volumeFolder(copy), basename(second!.path))
    for (const { number } of [second!, third!]) rmSync(pathOf(volumeFolder(copy), 'segment', number), { force: true })
    const bytes = readFileSync(path)
    if (harm === 'all of it') rmSync(path)
    else {
      bytes.fill(0x55, harm === 'a block' ? 100 : bytes.length - 60, harm === 'a block' ? 200 : bytes.length)
      writeFileSync(path, bytes)
    }
    const { plan, aside } = await carriedOut(t, copy)
    const left = amounts(copy)
    if (harm === 'the footer') t.same([plan.loss!.gaps, left.size], [[], all.size], 'nothing is lost with a footer')
    else t.equal(plan.loss!.entries, all.size - left.size, `${harm}: ${plan.loss!.entries} entries`)
    t.same(verify(copy), [], harm)
    await (await open(copy)).close()
    t.same(verify(copy), [], harm)
    t.equal(planRepair(copy), undefined)
    t.ok(existsSync(join(aside, 'sluice.db.journal')))
  }
})

t.test('the command says what is lost, and mends only who says that it is known', async (t) => {
  const { file } = await charged(t, 20)
  for (const { kind, path } of listNumbered(volumeFolder(file))) if (kind === 'checkpoint') rmSync(path)
  damage(lastSegment(file), 9, 12)
  const before = filesOf(file)
  const look = await sluice(['ledger', 'repair', '--db', file, '--apply'])
  t.match(look, { code: 3, out: /lost {6}what was written from \S+Z to \S+Z: batches 10 to 13\n/ })
  t.match(look.out, /lost {6}\d+ entr(y|ies) of the journal/)
  t.match(look.out, /lacks {5}key:laptop total: \$0\.000\d+\n/)
  t.match(look.out, /Nothing was changed: --apply --accept-loss does it\.\n$/)
  t.same(filesOf(file), before)
  t.match(await sluice(['ledger', 'repair', '--db', file, '--accept-loss']), { code: 2 })
  const json = await sluice(['ledger', 'repair', '--db', file, '--json'])
  t.match(JSON.parse(json.out), { base: 'mended', loss: { gaps: [{ first: 10, last: 13 }] }, folder: null })
  const done = await sluice(['ledger', 'repair', '--db', file, '--apply', '--accept-loss'])
  t.match(done, { code: 0, out: /The store can start/ })
  t.match(await sluice(['ledger', 'repair', '--db', file]), { code: 0, out: /nothing is damaged/ })
  const ledger = new LedgerFile(file)
  t.ok(ledger.last > 10)
  ledger.close()
})

t.test(
  'killed at any write of it, a repair leaves the damaged store or the mended one',
  { skip: noDisk },
  async (t) => {
    const { file } = await charged(t, 12)
    for (const { kind, path } of listNumbered(volumeFolder(file))) if (kind === 'checkpoint') rmSync(path)
    damage(lastSegment(file), 5, 7)
    const home = dirname(file)
    const damaged = join(home, 'damaged')
    const own = (): string[] => readdirSync(home).filter((name) => name.startsWith('sluice.db'))
    for (const name of own()) cpSync(join(home, name), join(damaged, name), { recursive: true })
    const begin = (): void => {
      for (const name of own()) rmSync(join(home, name), { recursive: true })
      cpSync(damaged, home, { recursive: true })
    }
    const disk = Disk.make(t, file)
    const mended = (): Promise<{ code: number | null }> =>
      sluice(['ledger', 'repair', '--db', file, '--apply', '--accept-loss'], { env: disk.env, alone: true })
    const none = disk.calls
    t.match(await mended(), { code: 0 })
    const calls = disk.calls.writes + disk.calls.syncs - none.writes - none.syncs
    const right = amounts(file)
    const outcomes = { damaged: 0, mended: 0 }
    const places = process.env['SLUICE_LONG']
      ? Array.from({ length: calls }, (_, i) => i + 1)
      : [0.2, 0.8, 0.97, 1].map((part) => Math.ceil(part * calls))
    for (const killAt of places) {
      begin()
      disk.set({ killAt })
      await mended()
      disk.set()
      // Whoever owns the store next completes what was decided.
      Ownership.take(file, { damaged: true }).release()
      const plan = planRepair(file)
      outcomes[plan ? 'damaged' : 'mended']++
      if (plan) repair(file, plan, Date.now())
      t.same([verify(file), amounts(file)], [[], right], `killed at ${killAt} of ${calls}`)
    }
    t.ok(outcomes.damaged > 0, JSON.stringify(outcomes))
  }
)
