// The clock of the database is set ahead and back while gateways have leases: nobody who lives loses anything by it.
import { hash } from 'node:crypto'
import t from 'tap'
import type { Test } from 'tap'
import { ClaimBook } from '../../../../core/store/cluster/answers/claim-book.ts'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { WorkList } from '../../../../core/store/cluster/works/work-list.ts'
import type { Work } from '../../../../core/store/works.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../kit/cluster-money.ts'
import { settableClock } from '../../../kit/database-clock.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'
import { eventually } from '../../../kit/probe.ts'
import { noon, scope, work } from '../embedded/sample.ts'
import { charge, endsIn, hold } from './money/oracle.ts'

// All wait for leases to end.
t.jobs = 4

const skip = postgresMissing
const day = 86_400_000
const [mine, yours] = ['mine', 'yours'].map((text) => hash('sha256', text, 'buffer')) as [Buffer, Buffer]
/** Of who takes over: it does so after one and a half of them. The others renew theirs meanwhile, twice. */
const [lease, renewed] = [12_000, 24_000]

interface Gateway {
  readonly works: WorkList
  readonly claims: ClaimBook
  readonly taken: Work[]
  /** It is gone, and gives nothing up. */
  kill(): Promise<void>
}

async function gateway(t: Test, url: string, leaseFor: number): Promise<Gateway> {
  const database = await Database.open({ url })
  const works = await WorkList.open(database, () => noon, { lease: leaseFor })
  const claims = new ClaimBook(database, leaseFor)
  const taken: Work[] = []
  works.onTaken = (work) => void taken.push(work)
  let ended: Promise<unknown> | undefined
  const kill = async (): Promise<void> => {
    await (ended ??= database.close().then(() => Promise.all([works.close(), claims.close()])))
  }
  t.teardown(kill)
  return { works, claims, taken, kill }
}

/** A gateway that lives, and one that takes over what another has left, which is gone. */
interface Gateways {
  readonly lives: Gateway
  readonly takes: Gateway
  shift(ahead: number): Promise<void>
  readonly url: string
}

async function gateways(t: Test): Promise<Gateways> {
  const url = await (await sharedPostgres()).book()
  const shift = await settableClock(url)
  const [lives, takes, gone] = await Promise.all([renewed, lease, lease].map((one) => gateway(t, url, one)))
  await lives!.works.put(work('lives'))
  await lives!.claims.take('lives', mine)
  await gone!.works.put(work('gone'))
  await gone!.claims.take('gone', mine)
  await gone!.kill()
  return { lives: lives!, takes: takes!, shift, url }
}

for (const [what, ahead] of [
  ['ahead', day],
  ['back', -day]
] as const)
  t.test(
    `a clock that is set ${what} by a day takes nothing from who lives, and leaves nothing of who is gone`,
    { skip, buffered: true },
    async (t) => {
      const { lives, takes, shift, url } = await gateways(t)
      const server = await sharedPostgres()
      await eventually(() => takes.taken.length === 1)
      await eventually(async () => (await takes.claims.take('gone', yours)) === undefined)
      const dead = await gateway(t, url, lease)
      await dead.works.put(work('gone, too'))
      await dead.claims.take('gone, too', mine)
      await dead.kill()
      await shift(ahead)
      t.same(await takes.claims.take('lives', yours), mine)
      t.same(await takes.claims.look('lives'), mine)
      const ends = `select from sluice.work where id = 'lives' and abs(extract(epoch from until - clock_timestamp())) < 60
      union all select from sluice.claim where name = 'lives' and abs(extract(epoch from until - clock_timestamp())) < 60`
      await eventually(async () => (await server.sql(ends, url)).length === 2)
      await eventually(() => takes.taken.length === 2)
      await eventually(async () => (await takes.claims.take('gone, too', yours)) === undefined)
      t.same(
        takes.taken.map(({ id }) => id),
        ['gone', 'gone, too']
      )
      t.same(await takes.claims.take('lives', yours), mine)
      await lives.works.put(work('lives', { progress: 5 }))
    }
  )

for (const ahead of [day, -day])
  t.test(
    `nodes of money keep their holds when the clock is set by ${ahead / day} days, and others do not`,
    { skip, buffered: true },
    async (t) => {
      const url = await moneyBook()
      const server = await sharedPostgres()
      const shift = await settableClock(url)
      const scopes = [scope('tenant', 'acme', 10_000n)]
      const options = { now: () => noon }
      const [lives, , gone] = await Promise.all(
        [renewed, lease, lease].map((one, i) =>
          moneyNode(t, url, ['lives', 'takes', 'gone'][i]!, { folder: logFolder(t), lease: one, ...options })
        )
      )
      const mine = await hold(lives!.ledger, scopes, 10n)
      await hold(gone!.ledger, scopes, 10n)
      await gone!.kill()
      const open = async (): Promise<string[]> =>
        (await server.sql('select node from sluice.hold order by node', url)).map(({ node }) => node as string)
      await eventually(async () => (await open()).join() === 'lives')
      const dead = await moneyNode(t, url, 'dead', { folder: logFolder(t), lease, ...options })
      await hold(dead.ledger, scopes, 10n)
      await dead.kill()
      await shift(ahead)
      await eventually(async () => (await open()).join() === 'lives')
      await mine.settle(charge(3))
      t.same((await endsIn(url)).get(mine.requestId), ['settle 3 upstream'], 'nobody has ended it by estimate')
      t.same(await brokenIn(url), [])
    }
  )
