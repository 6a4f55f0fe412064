// Regular backups: when they are made, what is removed after them, and how trouble with their folder shows.
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import type { BackupSettings } from '../../../core/catalogue/settings.ts'
import { Backups } from '../../../core/program/backups.ts'
import { backupsIn, makeBackup } from '../../../core/store/embedded/care/backup-folder.ts'
import { restore } from '../../../core/store/embedded/care/restore.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { JournalForm } from '../../../core/store/embedded/store.ts'
import type { Store } from '../../../core/store/store.ts'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { Metrics } from '../../../core/telling/metrics.ts'
import { Disk, noDisk } from '../../chaos/disk.ts'
import { gateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { reserve, scope, settle } from '../store/embedded/sample.ts'

t.setTimeout(600_000)

const charge = (store: Store): Promise<void> =>
  settle(store, reserve(store.ledger, [scope('tenant', 'acme')], 1000n), 7)

async function closedStore(file: string, charges = 1, form?: JournalForm): Promise<string> {
  const store = await openStore({ file, durability: 'process', form })
  for (let i = 0; i < charges; i++) await charge(store)
  await store.close()
  return file
}

/** What is there, but for what belongs to another file of its name. */
const namesIn = (folder: string): string[] =>
  existsSync(folder)
    ? readdirSync(folder)
        .filter((name) => !/-(?:shm|wal)$|\.journal$|^\./.test(name))
        .sort()
    : []

/** Backups of a store by a clock that the test sets, whose log is gathered. */
function scheduled(t: Test, file: string) {
  const lines: { level: string; message: string; fields: Record<string, unknown> }[] = []
  const add =
    (level: string) =>
    (message: string, fields: Record<string, unknown> = {}) =>
      void lines.push({ level, message, fields })
  const log = { debug: add('debug'), info: add('info'), warn: add('warn'), error: add('error') }
  const metrics = new Metrics()
  let ahead = 0
  const now = (): number => performance.now() + ahead
  const backups = new Backups({ file, log: log as never, metrics, now, pauses: { calm: 20, retry: 20 } })
  t.teardown(() => backups.close())
  return {
    backups,
    lines,
    pass: (ms: number) => (ahead += ms),
    async figure(name: string): Promise<string | undefined> {
      return new RegExp(`^sluice_${name} (.*)$`, 'm').exec((await metrics.expose()).text)?.[1]
    }
  }
}

const made = (lines: readonly { message: string }[]): number =>
  lines.filter(({ message }) => /backup was made|made again/.test(message)).length

t.test('the first is made soon after the start, the next after the time between two, and the oldest go', async (t) => {
  const folder = t.testdir()
  const file = await closedStore(join(folder, 'sluice.db'))
  const to = join(folder, 'deep/backups')
  const settings: BackupSettings = { to, every: 500, keep: 2 }
  const { backups, lines, figure } = scheduled(t, file)
  t.equal(await figure('store_backup_age_seconds'), undefined, 'without backups there is no age')
  backups.use(settings)
  t.equal(await figure('store_backup_age_seconds'), '+Inf')
  await eventually(() => made(lines) >= 4, 200_000)
  backups.use(undefined)
  const kept = namesIn(to)
  t.equal(kept.length, 2)
  for (const name of kept) {
    t.match(name, /^sluice-[0-9a-f]{8}-\d{8}T\d{9}Z\.db$/)
    t.same(verify(join(to, name)), [])
  }
  t.match(lines[3]!.fields, { entries: 1, removed: [String], bytes: Number, seconds: Number })
  t.same(
    lines.filter(({ level }) => level !== 'info'),
    []
  )
  t.ok(Number(await figure('store_backups_total{outcome="made"}')) >= 4)
  t.equal(await figure('store_backup_age_seconds'), undefined, 'a reload has turned them off')
})

t.test(
  'a start goes on from the newest backup that is there: one that was missed is made, another is waited for',
  async (t) => {
    const folder = t.testdir()
    const file = await closedStore(join(folder, 'sluice.db'))
    const to = join(folder, 'backups')
    const hour = 3_600_000
    await makeBackup(to, file, 3, Date.now() - 2 * hour)
    const early = scheduled(t, file)
    early.backups.use({ to, every: 3 * hour, keep: 3 })
    await eventually(async () => Number(await early.figure('store_backup_age_seconds')) < 10_000, 200_000)
    t.ok(Number(await early.figure('store_backup_age_seconds')) >= 7200)
    t.equal(made(early.lines), 0)
    await early.backups.close()
    const late = scheduled(t, file)
    late.backups.use({ to, every: hour, keep: 3 })
    await eventually(() => made(late.lines) === 1, 200_000)
    t.equal(namesIn(to).length, 2)
    t.ok(Number(await late.figure('store_backup_age_seconds')) < 3600)
    await late.backups.close()
    // A clock that was wrong made one of the future.
    await makeBackup(to, file, 3, Date.now() + 1000 * hour)
    const puzzled = scheduled(t, file)
    puzzled.backups.use({ to, every: 2 * hour, keep: 3 })
    await eventually(async () => (await puzzled.figure('store_backup_age_seconds')) !== '+Inf', 200_000)
    t.equal(made(puzzled.lines), 0, 'a start makes none for it')
    t.ok(Number(await puzzled.figure('store_backup_age_seconds')) >= 3600, 'and the next is due within the hour')
  }
)

t.test('a folder that cannot be written is named once, nothing is removed, and it goes on when it can', async (t) => {
  const folder = t.testdir({ backups: 'a file in the place of the folder' })
  const file = await closedStore(join(folder, 'sluice.db'))
  const to = join(folder, 'backups')
  const { backups, lines, figure } = scheduled(t, file)
  backups.use({ to, every: 200, keep: 1 })
  await eventually(async () => Number(await figure('store_backups_total{outcome="failed"}')) >= 3, 200_000)
  t.equal(lines.length, 1, 'the same failure is one line')
  t.match(lines[0], {
    level: 'error',
    message: /could not be made: it is tried again/,
    fields: { folder: to, error: /ENOTDIR|EEXIST/ }
  })
  t.equal(await figure('store_backup_age_seconds'), '+Inf')
  const other = join(folder, 'others')
  await makeBackup(other, file, 1, Date.now() - 1000)
  backups.use({ to: other, every: 200, keep: 1 })
  await eventually(() => made(lines) >= 1, 200_000)
  backups.use(undefined)
  t.equal(namesIn(other).length, 1, 'the older one went after the new one was checked')
})

t.test('a full disk under the folder costs no older backup, and leaves nothing half', { skip: noDisk }, async (t) => {
  const folder = t.testdir({ backups: {} })
  const file = await closedStore(join(folder, 'sluice.db'))
  const to = join(folder, 'backups')
  const disk = Disk.make(t, join(to, 'sluice'))
  await makeBackup(to, file, 5, Date.now() - 100_000)
  const before = namesIn(to)
  // The process that makes backups has it from this one.
  Object.assign(process.env, disk.env)
  t.teardown(() => Object.keys(disk.env).forEach((name) => delete process.env[name]))
  disk.set({ writes: 'ENOSPC' })
  const { backups, lines, figure } = scheduled(t, file)
  backups.use({ to, every: 200, keep: 5 })
  await eventually(async () => Number(await figure('store_backups_total{outcome="failed"}')) >= 2, 200_000)
  t.match(backups.standing.failure, /full|ENOSPC|no space/i)
  t.match(lines, [{ level: 'error', fields: { folder: to, error: /full|ENOSPC|no space/i } }])
  disk.set()
  await eventually(() => made(lines) >= 1, 200_000)
  backups.use(undefined)
  t.equal(backups.standing.failure, undefined)
  const after = namesIn(to)
  t.ok(before.every((name) => after.includes(name)))
  for (const { path } of backupsIn(to, file)) t.same(verify(path), [])
  t.notOk(
    after.some((name) => name.includes('.part')),
    'what was broken off is gone'
  )
})

/** What a disk that is not mounted leaves of a folder, what comes back with the disk, and what is said meanwhile. */
const unmounted: readonly (readonly [what: string, leave: (to: string) => void, says: RegExp])[] = [
  ['a folder that is gone', () => {}, /its file \.sluice-backups is missing\. Is its disk mounted\?/],
  ['an empty mount point', (to) => mkdirSync(to), /its file \.sluice-backups is missing\. Is its disk mounted\?/],
  [
    'the folder of another disk',
    (to) => {
      mkdirSync(to)
      writeFileSync(join(to, '.sluice-backups'), 'other')
    },
    /its file \.sluice-backups is another one/
  ]
]
for (const [what, leave, says] of unmounted)
  t.test(`${what} is not filled with backups, also after a restart, until the disk is back`, async (t) => {
    const folder = t.testdir()
    const file = await closedStore(join(folder, 'sluice.db'), 5)
    const [to, away] = [join(folder, 'disk/backups'), join(folder, 'away')]
    const first = scheduled(t, file)
    first.backups.use({ to, every: 200, keep: 9 })
    await eventually(() => made(first.lines) >= 1, 200_000)
    await first.backups.close()
    const before = namesIn(to)
    renameSync(to, away)
    leave(to)
    const found = existsSync(to) ? readdirSync(to) : undefined
    const { backups, lines, figure } = scheduled(t, file)
    backups.use({ to, every: 200, keep: 9 })
    await eventually(async () => Number(await figure('store_backups_total{outcome="failed"}')) >= 2, 200_000)
    t.same(existsSync(to) ? readdirSync(to) : undefined, found, 'nothing was written there')
    t.equal(lines.length, 1, 'the same failure is one line')
    t.match(lines[0], { level: 'error', fields: { folder: to, error: says } })
    t.match(lines[0]!.fields['error'], `To begin anew in this folder, remove ${file}.backups`)
    t.match(backups.standing.failure, says, 'troubles and metrics have it')
    t.equal(await figure('store_backup_age_seconds'), '+Inf')
    rmSync(to, { recursive: true, force: true })
    renameSync(away, to)
    await eventually(() => made(lines) >= 1, 200_000)
    await backups.close()
    t.ok(before.every((name) => namesIn(to).includes(name)))
    for (const { path } of backupsIn(to, file)) t.same(verify(path), [])
  })

t.test('whoever means it begins anew in a folder that was emptied', async (t) => {
  const folder = t.testdir()
  const file = await closedStore(join(folder, 'sluice.db'))
  const to = join(folder, 'backups')
  await makeBackup(to, file, 9, Date.now())
  rmSync(to, { recursive: true })
  await t.rejects(makeBackup(to, file, 9, Date.now()), { message: /Is its disk mounted/ })
  t.notOk(existsSync(to))
  rmSync(`${file}.backups`)
  await makeBackup(to, file, 9, Date.now())
  // A kill between the two steps of the first backup has left the mark alone.
  rmSync(`${file}.backups`)
  await makeBackup(to, file, 9, Date.now())
  t.equal(backupsIn(to, file).length, 2)
})

t.test('a store that is damaged leaves the older backups alone', async (t) => {
  const folder = t.testdir()
  const file = await closedStore(join(folder, 'sluice.db'), 3, 'database')
  const to = join(folder, 'backups')
  await makeBackup(to, file, 1, Date.now() - 1000)
  const [before] = namesIn(to)
  const { DatabaseSync } = await import('node:sqlite')
  const database = new DatabaseSync(file)
  database.exec(
    'PRAGMA foreign_keys = OFF; DROP TRIGGER IF EXISTS journal_is_not_changed; UPDATE journal SET amount = 99 WHERE seq = 2'
  )
  database.close()
  await t.rejects(makeBackup(to, file, 1, Date.now()), {
    message: /the copy is not whole: I10 journal 2 is not what was hashed/
  })
  t.same(namesIn(to), [before])
})

t.test(
  'two stores with one folder remove their own alone, also when one was begun as a copy of the other',
  async (t) => {
    const folder = t.testdir()
    const to = join(folder, 'backups')
    const one = await closedStore(join(folder, 'one', 'sluice.db'))
    const stranger = await closedStore(join(folder, 'stranger', 'sluice.db'))
    await makeBackup(to, one, 5, Date.now())
    const shared = backupsIn(to, one)[0]!.path
    const twin = join(folder, 'twin', 'sluice.db')
    mkdirSync(join(folder, 'twin'))
    cpSync(shared, twin)
    if (existsSync(`${shared}.journal`)) cpSync(`${shared}.journal`, `${twin}.journal`, { recursive: true })
    await closedStore(one)
    await closedStore(twin)
    await makeBackup(to, one, 5, Date.now())
    const [ones] = backupsIn(to, one)
    for (let i = 0; i < 3; i++) for (const file of [twin, stranger]) await makeBackup(to, file, 1, Date.now())
    t.equal(backupsIn(to, stranger).length, 1)
    t.same(
      backupsIn(to, one).map(({ path }) => path),
      [ones!.path],
      'what both have went, what only one has stays'
    )
    t.equal(backupsIn(to, twin).length, 1)
    t.equal(namesIn(to).length, 3)
  }
)

t.test('a backup with something that a restore has lost stays, and what was broken off goes', async (t) => {
  const folder = t.testdir()
  const to = join(folder, 'backups')
  const file = await closedStore(join(folder, 'sluice.db'))
  const first = await makeBackup(to, file, 9, Date.now() - 5000)
  await closedStore(file)
  const lost = await makeBackup(to, file, 9, Date.now() - 4000)
  await restore(file, first.path)
  await closedStore(file)
  const old = `${first.path.slice(0, -'20261123T060000000Z.db'.length)}20200101T000000000Z.db`
  writeFileSync(`${old}.part`, '')
  utimesSync(`${old}.part`, 1, 1)
  const latest = await makeBackup(to, file, 1, Date.now())
  t.same(latest.removed, [first.path.slice(to.length + 1)])
  t.same(
    namesIn(to).map((name) => join(to, name)),
    [lost.path, latest.path].sort()
  )
  t.same(verify(lost.path), [])
})

t.test(
  'a gateway makes them by its file, takes a change over without a restart, and says how they are doing',
  async (t) => {
    const folder = t.testdir()
    const served = await gateway(t, { store: { sqlite: join(folder, 'sluice.db'), durability: 'process' } })
    const metrics = async (): Promise<string> => await (await fetch(`${served.adminUrl}/metrics`)).text()
    t.notMatch(await metrics(), /sluice_store_backup_age_seconds\{?.* \d/)
    served.configure({
      store: {
        sqlite: join(folder, 'sluice.db'),
        durability: 'process',
        backups: { to: join(folder, 'backups'), every: '1m', keep: 2 }
      }
    })
    t.match(await served.gateway.reload('test'), { ok: true, changes: Array })
    t.match(await metrics(), /^sluice_store_backup_age_seconds \+Inf$/m)
    await eventually(async () => (await served.chat()).status === 200)
    await eventually(() => served.lines.some(({ message }) => message === 'a backup was made and checked'), 200_000)
    t.match(await metrics(), /^sluice_store_backup_age_seconds \d+(\.\d+)?$/m)
    t.match(await metrics(), /^sluice_store_backups_total\{outcome="made"\} 1$/m)
    const [name] = namesIn(join(folder, 'backups'))
    t.same(verify(join(folder, 'backups', name!)), [])
  }
)

t.test('a folder that nobody may write to is said to be one', { skip: process.getuid?.() === 0 }, async (t) => {
  const folder = t.testdir({ backups: {} })
  const file = await closedStore(join(folder, 'sluice.db'))
  chmodSync(join(folder, 'backups'), 0o500)
  t.teardown(() => chmodSync(join(folder, 'backups'), 0o700))
  await t.rejects(makeBackup(join(folder, 'backups'), file, 1, Date.now()), { message: /EACCES/ })
})
