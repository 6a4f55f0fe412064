// A backup that is put back beside the log of a store that went on: it comes back as it is, or not at all.
import { cpSync, existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { backUp } from '../../../../../core/store/embedded/care/backup.ts'
import { Ownership } from '../../../../../core/store/embedded/files/lock.ts'
import { planRepair, repair } from '../../../../../core/store/embedded/care/repair.ts'
import type { RepairPlan } from '../../../../../core/store/embedded/care/repair.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import type { Store } from '../../../../../core/store/store.ts'
import { surveyBeside } from '../../../../../core/store/embedded/recovery/survey.ts'
import { verify } from '../../../../../core/store/embedded/care/verify/verify.ts'
import { eventually } from '../../../../kit/probe.ts'
import { noon, query, reserve, scope, settle } from '../sample.ts'

t.setTimeout(600_000)

/** Charges seven nano-dollars a request, and has each in a batch of its own. */
async function charge(store: Store, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await settle(store, reserve(store.ledger, [scope('tenant', 'acme')], 1000n), 7)
}

const spent = (file: string): bigint =>
  query(file, 'SELECT coalesce(sum(amount), 0) AS sum FROM journal')[0]!['sum'] as bigint

/** Of what a store is, as a kill at this moment would leave it. */
function imageOf(file: string, folder: string): string {
  mkdirSync(folder)
  for (const ending of ['', '-wal', '.log0', '.log1'])
    if (existsSync(`${file}${ending}`)) cpSync(`${file}${ending}`, join(folder, `sluice.db${ending}`))
  return join(folder, 'sluice.db')
}

/** Puts a backup in the place of a database, and leaves what lies beside it. */
function putBack(backup: string, file: string): void {
  rmSync(file)
  rmSync(`${file}-wal`, { force: true })
  cpSync(backup, file)
}

function planOf(file: string, apply = false): RepairPlan | undefined {
  const owner = Ownership.take(file)
  try {
    const plan = planRepair(file)
    if (plan && apply) repair(file, plan, noon)
    return plan
  } finally {
    owner.release()
  }
}

/** The start refuses, a repair takes nothing of the log, and what comes back is the backup and what follows it. */
async function comesBack(t: Test, file: string, what: string): Promise<void> {
  t.equal(spent(file), 21n, what)
  await t.rejects(openStore({ file, durability: 'process', form: 'database' }), { message: /backup|older/ }, what)
  t.equal(spent(file), 21n, `${what}: the start has changed nothing`)
  const plan = planOf(file, true)!
  t.match(plan, { base: 'whole', saved: { batches: 0 }, lost: [], endKnown: true }, what)
  t.ok(plan.foreign.charges > 0, `${what}: ${plan.foreign.charges} charges of the log are told of`)
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await charge(store, 1)
  await store.close()
  t.equal(spent(file), 28n, what)
  t.same(verify(file), [], what)
}

t.test('a backup that is put back beside a newer log takes nothing of it, whoever starts or repairs', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sluice.db')
  const backup = join(folder, 'backup.db')
  let store = await openStore({ file, durability: 'process', form: 'database' })
  await charge(store, 3)
  const made = await backUp(file, backup)
  t.same(verify(backup), [])
  t.equal(spent(backup), 21n)
  await charge(store, 2)
  const soon = imageOf(file, join(folder, 'soon'))
  await charge(store, 16)
  await store.flush()
  const late = imageOf(file, join(folder, 'late'))
  await store.close()
  const closed = imageOf(file, join(folder, 'closed'))
  store = await openStore({ file, durability: 'process', form: 'database' })
  await charge(store, 1)
  const again = imageOf(file, join(folder, 'again'))
  await store.close()
  for (const [what, path] of Object.entries({ soon, late, closed, again })) {
    putBack(backup, path)
    await comesBack(t, path, what)
  }

  // A backup that was brought back has an epoch of its own, and so has whoever brings it back once more.
  const second = join(folder, 'second.db')
  cpSync(backup, second)
  store = await openStore({ file: second, durability: 'process', form: 'database' })
  await charge(store, 5)
  const twice = imageOf(second, join(folder, 'twice'))
  await store.close()
  putBack(backup, twice)
  await comesBack(t, twice, 'twice')

  const other = await backUp(second, join(folder, 'other.db'))
  t.match(made, { store: /^[0-9a-f]{16}$/, epoch: /^[0-9a-f]{16}$/ })
  t.equal(other.store, made.store, 'copies of one store have its identity')
  t.not(other.epoch, made.epoch, 'and each an epoch of its own')
})

t.test('a backup by itself starts as it is, also where its first start was killed', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sluice.db')
  const backup = join(folder, 'backup.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await charge(store, 3)
  await backUp(file, backup)
  await store.close()
  t.same(surveyBeside(backup).damage, [])
  t.equal(planOf(backup), undefined)
  rmSync(`${backup}.lock`)
  const restored = await openStore({ file: backup, durability: 'process', form: 'database' })
  t.equal(restored.health().recovered, 0)
  await restored.close()
  t.equal(spent(backup), 21n)
  t.same(verify(backup), [])
  // A backup of a backup.
  await backUp(backup, join(folder, 'third.db'))
  t.same(verify(join(folder, 'third.db')), [])
})

t.test('with both files of the log gone, a repair says that the end is not known', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'sluice.db')
  const store = await openStore({ file, durability: 'process', form: 'database' })
  await charge(store, 3)
  await store.flush()
  await eventually(() => spent(file) === 21n)
  const wreck = imageOf(file, join(folder, 'wreck'))
  await store.close()
  for (const ending of ['.log0', '.log1']) rmSync(`${wreck}${ending}`)
  const plan = planOf(wreck, true)!
  t.match(plan, { base: 'whole', lost: [], endKnown: false })
  const again = await openStore({ file: wreck, durability: 'process', form: 'database' })
  await again.close()
  t.equal(planOf(wreck), undefined)
})
