// Budgets of every window at four levels, against an oracle that keeps every entry and adds it up anew for each
// question. Schedules run over months, with clocks that go back and stores that are opened again.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import type { Budget, Scope } from '../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../core/errors.ts'
import type { BudgetReason } from '../../../../core/errors.ts'
import type { Reservation } from '../../../../core/store/ledger.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { OwnStore } from '../../../../core/store/embedded/store.ts'
import { verify } from '../../../../core/store/embedded/care/verify/verify.ts'
import { giveBack, noon, reserve, settle } from './sample.ts'

/** How many schedules run: 10,000 with SLUICE_LONG=1. */
const runs = process.env['SLUICE_LONG'] ? 10_000 : 60
/** After how many schedules a new file is begun, so that starts stay short. */
const runsPerFile = 50

t.setTimeout(3_600_000)

const hour = 3_600_000
const day = 24 * hour

/** What the oracle keeps of a hold. `counts`: the kinds of windows that each scope counted in at that time. */
interface Entry {
  time: number
  posted: bigint
  pending: bigint
  counts: Map<string, Set<string>>
}

/** The first and the last millisecond of the window of a budget that a request of that time counts in. */
function windowAt(per: Budget['per'], time: number): [first: number, last: number] {
  const date = new Date(time)
  const [year, month, monthDay] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  if (per === 'total') return [-Infinity, Infinity]
  if (per === 'month') return [Date.UTC(year, month), Date.UTC(year, month + 1) - 1]
  if (per === 'day') return [Date.UTC(year, month, monthDay), Date.UTC(year, month, monthDay + 1) - 1]
  if (per === 'week') {
    const monday = monthDay - ((date.getUTCDay() + 6) % 7)
    return [Date.UTC(year, month, monday), Date.UTC(year, month, monday + 7) - 1]
  }
  const end = Math.floor(time / hour) * hour + hour
  return [end - Number(per.slice(0, -1)) * day, end - 1]
}

/** The kind of balance that a budget adds up. */
function kindOf(per: Budget['per']): string {
  return /^\d/.test(per) ? 'hour' : per
}

class Oracle {
  entries: Entry[] = []

  sum(scope: string, per: Budget['per'], time: number): { posted: bigint; pending: bigint } {
    const [first, last] = windowAt(per, time)
    const sum = { posted: 0n, pending: 0n }
    for (const entry of this.entries) {
      const kinds = entry.counts.get(scope)
      if (!kinds || (per !== 'total' && !kinds.has(kindOf(per)))) continue
      if (entry.time < first || entry.time > last) continue
      sum.posted += entry.posted
      sum.pending += entry.pending
    }
    return sum
  }

  /** The budgets of the outermost scope that cannot carry an amount; none when all can. */
  lacking(scopes: readonly Scope[], amount: bigint, time: number): { scope: Scope; budget: Budget }[] {
    if (amount === 0n) return []
    for (const scope of scopes) {
      const found = scope.budgets.filter((budget) => {
        const { posted, pending } = this.sum(scope.id, budget.per, time)
        return posted + pending + amount > budget.limit
      })
      if (found.length > 0) return found.map((budget) => ({ scope, budget }))
    }
    return []
  }

  /** The first full hour or window at which a budget carries an amount, by trying all of them. */
  freeAt(scope: string, { per, limit }: Budget, amount: bigint, time: number): string | null {
    if (amount > limit || per === 'total') return null
    if (kindOf(per) !== 'hour') return new Date(windowAt(per, time)[1] + 1).toISOString()
    for (let at = Math.floor(time / hour) * hour + hour; ; at += hour) {
      const { posted, pending } = this.sum(scope, per, at)
      if (posted + pending + amount <= limit) return new Date(at).toISOString()
    }
  }
}

const per = fc.oneof(
  fc.constantFrom<Budget['per']>('day', 'week', 'month', 'total'),
  fc.integer({ min: 1, max: 40 }).map((days) => `${days}d` as const),
  fc.constantFrom<Budget['per']>('1d', '7d', '30d', '366d')
)
const budgets = fc.uniqueArray(fc.record({ limit: fc.bigInt(0n, 300n), per }), {
  selector: (budget) => budget.per,
  maxLength: 3,
  size: 'max'
})
/** Budgets of tenant, project, member and key, as a file of some day has them. */
const file = fc.array(budgets, { minLength: 4, maxLength: 4 })

const step = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({ do: fc.constant('reserve' as const), amount: fc.bigInt(0n, 120n), tree: fc.nat(1) })
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('settle' as const), which: fc.nat(50), amount: fc.nat(150) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('void' as const), which: fc.nat(50) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.oneof(fc.nat(2 * hour), fc.nat(3 * day), fc.nat(45 * day), fc.constantFrom(hour, day, 7 * day, 30 * day))
    })
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('back' as const), ms: fc.oneof(fc.nat(2 * hour), fc.nat(80 * day)) })
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reload' as const), file }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) }
)

const kinds = ['tenant', 'project', 'member', 'key'] as const

/** Two keys of one tenant and project, each with a member of its own. */
function treesOf(run: number, file: readonly (readonly Budget[])[]): Scope[][] {
  return [0, 1].map((tree) =>
    kinds.map((kind, i) => ({
      kind,
      id: `${kind}:${[`t${run}`, `t${run}/p`, `t${run}/p/m${tree}`, `k${run}-${tree}`][i]}`,
      budgets: file[i]!
    }))
  )
}

t.test(`${runs} schedules over months admit and refuse exactly what every entry added up says`, async (t) => {
  let clock = noon
  let path = ''
  let store: OwnStore | undefined
  let run = 0
  let asked = 0
  let refused = 0
  t.teardown(() => store?.close().catch(() => {}))
  const reopen = async (): Promise<OwnStore> => {
    await store?.close()
    return (store = await openStore({ file: path, durability: 'process', now: () => clock }))
  }
  const renew = async (): Promise<void> => {
    await store?.close()
    if (path !== '') t.same(verify(path).slice(0, 3), [], 'every invariant holds')
    path = join(t.testdir(), `${run}.db`)
    store = undefined
    clock = noon
    await reopen()
  }
  /** What the store says to a request, when it has read what it needs. */
  const ask = async (scopes: readonly Scope[], amount: bigint): Promise<Reservation | BudgetReason> => {
    for (let tries = 0; ; tries++) {
      try {
        return reserve(store!.ledger, scopes, amount, { time: clock })
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error
        if (error.code !== 'billing_unavailable') return error.details.reason as BudgetReason
        if (tries > 2000) throw new Error(`is refused for ever: ${error.message}`, { cause: error })
        await sleep(1)
      }
    }
  }

  await fc.assert(
    fc.asyncProperty(file, fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }), async (first, steps) => {
      if (run % runsPerFile === 0) await renew()
      run++
      let trees = treesOf(run, first)
      const oracle = new Oracle()
      let open: { reservation: Reservation; entry: Entry }[] = []
      for (const step of steps) {
        if (step.do === 'wait') clock += step.ms
        else if (step.do === 'back') clock -= step.ms
        else if (step.do === 'reload') trees = treesOf(run, step.file)
        else if (step.do === 'restart') {
          await reopen()
          // Nothing of it was sent, so the start gives it back.
          for (const { entry } of open) entry.pending = 0n
          open = []
        } else if (step.do === 'reserve') {
          asked++
          const scopes = trees[step.tree]!
          const lacking = oracle.lacking(scopes, step.amount, clock)
          const answer = await ask(scopes, step.amount)
          if ('by' in answer) {
            refused++
            const found = lacking.find(({ budget }) => budget.per === answer.per)
            if (!found) throw new Error(`refused by ${answer.scope} ${answer.per} at ${clock}, which has enough`)
            const { posted, pending } = oracle.sum(answer.scope, found.budget.per, clock)
            const right = {
              scope: found.scope.id,
              limit: found.budget.limit,
              asked: step.amount,
              posted,
              pending
            }
            const { scope, limit_nano: limit, asked_nano: wanted, posted_nano, pending_nano } = answer
            const said = { scope, limit, asked: wanted, posted: posted_nano, pending: pending_nano }
            for (const name of ['scope', 'limit', 'asked', 'posted', 'pending'] as const)
              if (String(right[name]) !== said[name]) throw new Error(`${name} is ${said[name]}, not ${right[name]}`)
            // Where the clock went back, hours to come have charges already, and nobody can say when enough is free.
            if (oracle.entries.every(({ time }) => Math.floor(time / hour) <= Math.floor(clock / hour))) {
              const times = lacking.map(({ scope, budget }) => oracle.freeAt(scope.id, budget, step.amount, clock))
              const last = times.includes(null) ? null : times.sort().at(-1)!
              if (answer.free_at !== last) throw new Error(`says that enough is free at ${answer.free_at}, not ${last}`)
            }
          } else {
            if (lacking.length > 0)
              throw new Error(`admitted ${step.amount}, which ${lacking[0]!.scope.id} ${lacking[0]!.budget.per} lacks`)
            const counts = new Map(
              scopes.map(({ id, budgets }) => [id, new Set(budgets.map(({ per }) => kindOf(per)))])
            )
            const entry = { time: clock, posted: 0n, pending: step.amount, counts }
            oracle.entries.push(entry)
            open.push({ reservation: answer, entry })
          }
        } else if (open.length > 0) {
          const [{ reservation, entry }] = open.splice(step.which % open.length, 1) as [(typeof open)[number]]
          entry.pending = 0n
          if (step.do === 'settle') {
            entry.posted = BigInt(step.amount)
            void settle(store!, reservation, step.amount)
          } else void giveBack(store!, reservation)
        }
      }
      for (const { reservation, entry } of open) {
        entry.pending = 0n
        void giveBack(store!, reservation)
      }
      // What balances say of the present windows of everybody.
      for (const scope of new Set(trees.flat())) {
        for (const balance of store!.ledger.balances({ scope: scope.id })) {
          if (!scope.budgets.some(({ per }) => per === balance.window)) continue
          const { posted } = oracle.sum(scope.id, balance.window as Budget['per'], clock)
          if (balance.posted !== posted)
            throw new Error(`${scope.id} ${balance.window} is shown with ${balance.posted}, not ${posted}`)
        }
      }
      await store!.flush()
    }),
    { numRuns: runs, endOnFailure: true }
  )
  await store!.close()
  t.same(verify(path).slice(0, 3), [], 'every invariant holds')
  t.ok(refused > asked / 10 && refused < asked, `${refused} of ${asked} requests were refused`)
})

t.test('a hold of nothing keeps what it counts in, however long it is open', async (t) => {
  let clock = noon
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', now: () => clock })
  t.teardown(() => store.close().catch(() => {}))
  for (const [name, per, wait] of [
    ['rolling', '30d', 60 * hour],
    ['daily', 'day', 70 * day]
  ] as const) {
    const scopes: Scope[] = [
      { kind: 'tenant', id: `tenant:${name}`, budgets: [{ limit: 100n, per }] },
      { kind: 'key', id: `key:${name}`, budgets: [] }
    ]
    /** Reserves at a time, when what was spent around it is read. */
    const at = async (time: number, amount: bigint): Promise<Reservation> => {
      clock = time
      for (;;) {
        try {
          return reserve(store.ledger, scopes, amount, { time })
        } catch (error) {
          if (!(error instanceof GatewayError) || error.code !== 'billing_unavailable') throw error
          await sleep(1)
        }
      }
    }
    clock = noon
    const [first, second] = [await at(noon, 0n), await at(noon, 0n)]
    await store.flush()
    for (let later = noon + wait; later < noon + 2 * wait; later += wait / 4) await giveBack(store, await at(later, 5n))
    await store.flush()
    const anew = await at(noon, 7n)
    await settle(store, first, 60)
    await settle(store, anew, 7)
    await t.rejects(at(noon, 34n), { code: 'quota_tenant_exceeded' }, `67 of 100 are spent, ${name}`)
    await giveBack(store, await at(noon, 33n))
    await settle(store, second, 3)
    await store.flush()
    await t.rejects(at(noon, 31n), { code: 'quota_tenant_exceeded' }, `70 of 100 are spent, ${name}`)
  }
  await store.close()
  t.same(verify(file), [])
})
