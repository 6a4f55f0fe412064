// Rolling budgets of workers: they admit what one process admits, whatever hours holds and charges are of.
import t from 'tap'
import type { Budget, Scope } from '../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../core/errors.ts'
import { Balances } from '../../../../core/store/embedded/balance/balances.ts'
import type { StoredBalance } from '../../../../core/store/embedded/balance/balances.ts'
import type { Purse } from '../../../../core/store/embedded/balance/purse.ts'
import { Sums } from '../../../../core/store/embedded/balance/sums.ts'
import type { Purses } from '../../../../core/store/embedded/book/purses.ts'
import { horizon, hour, windowOf } from '../../../../core/store/window.ts'
import { Arena } from '../../../../core/store/shared/arena/arena.ts'
import { BalanceRows } from '../../../../core/store/shared/arena/balance-rows.ts'
import { WorkerCells } from '../../../../core/store/shared/arena/cells.ts'
import { Directory } from '../../../../core/store/shared/arena/directory.ts'
import { Seat } from '../../../../core/store/shared/arena/seat.ts'
import { Seats } from '../../../../core/store/shared/arena/seats.ts'
import { noon } from '../embedded/sample.ts'
import { chances, pursesOf } from './tasks.ts'

function scopeOf(kind: Scope['kind'], name: string, ...budgets: readonly [bigint, Budget['per']][]): Scope {
  return { kind, id: `${kind}:${name}`, budgets: budgets.map(([limit, per]) => ({ limit, per })) }
}

const tenant = scopeOf('tenant', 'acme', [700n, '7d'], [3000n, 'month'])
const callers: readonly (readonly Scope[])[] = [
  [tenant, scopeOf('project', 'acme/web'), scopeOf('key', 'one', [150n, '1d'], [400n, '2d'])],
  [tenant, scopeOf('key', 'two', [250n, '1d'], [200n, 'day'])]
]

/** What becomes of something: its value, or the refusal. */
function told(act: () => unknown): unknown {
  try {
    return act() ?? 'done'
  } catch (error) {
    if (error instanceof GatewayError) return [error.code, error.message, error.details.reason]
    throw error
  }
}

/** A worker, and what its records say. */
interface Desk {
  readonly number: number
  readonly purses: Purses
  readonly records: Sums
}

/** Stored balances of some hours of the last week. */
function stored(): StoredBalance[] {
  const rows: StoredBalance[] = []
  const add = (scope: string, window: string, posted: bigint): void =>
    void rows.push({ scope, window, limit: null, posted, pending: 0n })
  add('tenant:acme', '7d', 0n)
  add('key:one', '1d', 0n)
  add('key:one', '2d', 0n)
  for (const back of [3, 20, 23, 24, 25, 47, 48, 100, 167, 168, 200]) {
    const window = windowOf('hour', noon - back * hour)
    add('tenant:acme', window, BigInt(back % 7) + 1n)
    add('key:one', window, BigInt(back % 5) + 1n)
  }
  add('tenant:acme', 'total', 40n)
  return rows
}

for (const seed of [1, 2, 3, 4, 5, 6])
  t.test(
    `workers that share hours say what one process says to holds and charges at many times (${seed})`,
    async (t) => {
      const chance = chances(seed)
      // Others are by the way of forgetting, so that the rest is the same with it and without.
      const forgets = chances(seed)
      const arena = Arena.create({ seats: 4, sets: 2, cells: 2048 })
      const seats = new Seats(arena)
      const rows = seed % 2 ? stored() : []
      const alone = pursesOf(new Balances(horizon(noon)), rows)
      const balanceRows = new BalanceRows(seats.own)
      // The supervisor takes over what is stored, and then the workers find it.
      pursesOf(new WorkerCells(seats.own), rows)
      const sit = (): Desk => {
        const number = seats.give()
        return {
          number,
          purses: pursesOf(new WorkerCells(new Seat(arena, number))),
          records: new Sums()
        }
      }
      const workers = [sit(), sit(), sit()]
      let now = noon
      let [alike, refused, times, forgotten] = [0, 0, 0, 0]
      /** Settles what was published of windows that ended some hours ago, and forgets what nobody needs. */
      const forget = (): void => {
        const over = Math.floor(now / hour) - 3
        for (const { number, records } of workers)
          for (const sum of records.over(over * hour)) {
            const { scope, window, posted, pending } = sum
            balanceRows.settle(number, { scope, window, posted, used: posted + pending })
            records.delete(sum)
          }
        forgotten += balanceRows.sweep(10_000, over)
      }
      const open: { one: Purse; other: Purse; by: Desk; time: number; amount: bigint }[] = []
      const same = (step: number, is: unknown, due: unknown): void => {
        times++
        if (JSON.stringify(is) === JSON.stringify(due)) alike++
        else if (alike === times - 1) t.same(is, due, `step ${step}`)
      }
      for (let step = 0; step < 3000; step++) {
        if (chance(4) === 0) now += chance(chance(10) === 0 ? 40 * hour : hour)
        if (seed % 3 > 0 && forgets(10) === 0) forget()
        if (open.length > 0 && chance(2) === 0) {
          // Ends come hours and days behind their holds.
          const [{ one, other, by, time, amount }] = open.splice(chance(open.length), 1) as [(typeof open)[number]]
          const charge = BigInt(chance(Number(amount) + 2))
          one.post(amount, charge)
          other.post(amount, charge)
          by.records.add(one.scopes, time, charge, -amount)
          continue
        }
        const by = workers[chance(workers.length)]!
        const [scopes, amount] = [callers[chance(callers.length)]!, BigInt(chance(30))]
        const time = now - (chance(5) === 0 ? chance(2 * hour) : 0)
        const [one, other] = [alone.of(scopes, time), by.purses.of(scopes, time)]
        const due = told(() => one.hold(amount))
        same(step, [told(() => other.hold(amount)), other.standings()], [due, one.standings()])
        if (due === 'done') {
          by.records.add(one.scopes, time, 0n, amount)
          open.push({ one, other, by, time, amount })
        } else refused++
        if (chance(300) > 0) continue
        // One goes, and did more than anybody will hear of. Its open holds end by another one.
        const [gone] = workers.splice(chance(workers.length), 1) as [Desk]
        by.purses.of(callers[0]!, now).hold(0n)
        told(() => gone.purses.of(callers[1]!, now).hold(1n))
        const published = [...gone.records].map(({ posted, pending, ...of }) => ({
          ...of,
          posted,
          used: posted + pending
        }))
        await seats.leave(gone.number, () => published)
        workers.push(sit())
        for (const hold of open)
          if (hold.by === gone) {
            hold.by = workers[0]!
            hold.other = hold.by.purses.stored(hold.one, hold.time)
            hold.by.records.add(hold.one.scopes, hold.time, 0n, 0n)
          }
      }
      t.equal(alike, times)
      if (seed % 3 > 0) {
        for (const { other, by, time, amount } of open) {
          other.post(amount, 0n)
          by.records.add(other.scopes, time, 0n, -amount)
        }
        // Another day, so that the days before are over for whoever asks.
        now += 60 * hour
        workers[0]!.purses.of(callers[0]!, now)
        forget()
        const { named } = new Directory(arena.cells, seats.own).room
        t.ok(forgotten > 200, `${forgotten} rows were forgotten`)
        // Of four scopes the total, and what one caller has in its present windows.
        t.ok(named <= 4 + 6, `${named} balances are left`)
        t.ok(new Directory(arena.days, seats.own).room.named <= 3 * (7 + 4), 'and the days of a week')
      }
      t.ok(refused > 100 && refused < times - 100, `${refused} of ${times} were refused`)
    }
  )
