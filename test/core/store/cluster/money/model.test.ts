// Random schedules at several nodes against the store of one machine, which decides the same and says the same.
import { join } from 'node:path'
import t from 'tap'
import type { Scope } from '../../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../../core/errors.ts'
import type { Balance, Ledger, Reservation } from '../../../../../core/store/ledger.ts'
import type { Sizing } from '../../../../../core/store/cluster/money/slices/slice.ts'
import { openStore } from '../../../../../core/store/embedded/store.ts'
import { chance } from '../../../../kit/chance.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../kit/cluster-money.ts'
import { DatabaseProxy } from '../../../../kit/database-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../../kit/postgres.ts'
import { noon, scope } from '../../embedded/sample.ts'
import { charge, requestFor } from './oracle.ts'

const hour = 3_600_000
const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))

const tenant: Scope = {
  kind: 'tenant',
  id: 'tenant:acme',
  budgets: [
    { limit: 4000n, per: 'month' },
    { limit: 1500n, per: 'week' }
  ]
}
const callers: readonly (readonly Scope[])[] = [
  [tenant, scope('project', 'acme/web', 900n, 'day'), scope('key', 'a', 700n, '1d')],
  [
    tenant,
    {
      kind: 'project',
      id: 'project:acme/app',
      budgets: [
        { limit: 800n, per: 'day' },
        { limit: 1200n, per: '2d' }
      ]
    },
    scope('key', 'b')
  ],
  [tenant, scope('project', 'acme/web', 900n, 'day'), scope('key', 'c', 2000n)]
]

/** Slices for a few requests, as early as there may be any. */
const sizing: Sizing = { span: 200, ahead: 1, few: 3, least: 1, rest: 0, idle: 600_000 }

/** What came of a request: what it holds, or the refusal in full. */
async function outcome(made: () => ReturnType<Ledger['reserve']>): Promise<Reservation | object> {
  try {
    return await made()
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { code: error.code, message: error.message, reason: error.details.reason }
  }
}

/** A balance of nothing is there as soon as somebody looked at it, or not. */
function used(balances: readonly Balance[]): Balance[] {
  return balances.filter(({ posted, pending }) => posted > 0n || pending > 0n)
}

t.test(
  `random schedules decide as one machine does (SEED=${seed})`,
  { skip: postgresMissing, timeout: 300_000 },
  async (t) => {
    const { below, pick } = chance(seed)
    let time = noon
    const now = (): number => time
    const single = await openStore({ file: join(t.testdir(), 'sluice.db'), durability: 'process', now })
    t.teardown(() => single.close())
    const server = await sharedPostgres()
    const url = await moneyBook()
    const proxy = await DatabaseProxy.start(t, server.socket)
    const nodes = await Promise.all(
      ['one', 'two', 'three'].map((name) => moneyNode(t, proxy.url(url), name, { folder: logFolder(t), now, sizing }))
    )
    proxy.loses = (sent) => sent.includes('money_batch') && below(40) === 0
    const open: { here: Reservation; there: Reservation }[] = []
    let refused = 0
    for (let step = 0; step < 250; step++) {
      const action = below(10)
      if (action < 6 || open.length === 0) {
        const at = time - (below(8) === 0 ? below(3) * hour : 0)
        const request = requestFor(pick(callers), BigInt(below(12) * 20), { time: at })
        const here = await outcome(() => single.ledger.reserve(request))
        const there = await outcome(() => pick(nodes).ledger.reserve(request))
        if ('settle' in here && 'settle' in there) {
          // What is read at other nodes is in the book.
          await there.durable
          open.push({ here, there })
        } else {
          refused++
          if (!('code' in here && 'code' in there))
            throw new Error(`step ${step}: one admits: ${JSON.stringify({ here, there })}`)
          t.same(there, here, `step ${step}: ${here.code}`)
        }
      } else if (action < 9) {
        const [{ here, there }] = open.splice(below(open.length), 1) as [(typeof open)[number]]
        const amount = below(5) === 0 ? undefined : below(Number(here.amount) + 40)
        for (const one of [here, there]) await (amount === undefined ? one.void() : one.settle(charge(amount)))
        // While the database does not answer, its end is durable in the log of its node.
        await Promise.all(nodes.map((node) => node.flush()))
      } else time += below(5) * hour
      if (step % 10 !== 0) continue
      const caller = pick(callers)
      const { ledger } = pick(nodes)
      t.equal(await ledger.affordable(caller, time), single.ledger.affordable(caller, time), `step ${step}: affordable`)
      t.same(await ledger.standings(caller, time), single.ledger.standings(caller, time), `step ${step}: standings`)
      t.same(used(await ledger.balances()), used(single.ledger.balances()), `step ${step}: balances`)
    }
    t.ok(refused > 5, `${refused} were refused`)
    proxy.loses = () => false
    await Promise.all(nodes.map((node) => node.flush()))
    t.same(await brokenIn(url), [])
  }
)
