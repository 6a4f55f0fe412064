// Slices on a real book: admission in memory far from the edge of a budget, and exactly by the database at it.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import type { Scope } from '../../../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../../../core/errors.ts'
import type { Ledger, Reservation } from '../../../../../../core/store/ledger.ts'
import type { Sizing } from '../../../../../../core/store/cluster/money/slices/slice.ts'
import { grantOf } from '../../../../../../core/store/cluster/money/slices/slices.ts'
import { chance } from '../../../../../kit/chance.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import type { MoneyNode } from '../../../../../kit/cluster-money.ts'
import { DatabaseProxy } from '../../../../../kit/database-proxy.ts'
import { postgresMissing, sharedPostgres } from '../../../../../kit/postgres.ts'
import { eventually } from '../../../../../kit/probe.ts'
import { noon, scope } from '../../../embedded/sample.ts'
import { charge, endsIn, hold, refusal, requestFor } from '../oracle.ts'

/** Large slices that only come back when somebody needs them. */
const sizing: Sizing = { span: 200, ahead: 1, few: 40, least: 2, rest: 0, idle: 600_000 }
const now = (): number => noon

function test(what: string, run: (t: Test) => Promise<void>): void {
  void t.test(what, { skip: postgresMissing, timeout: 300_000 }, run)
}

function nodesOf(t: Test, url: string, names: readonly string[]): Promise<MoneyNode[]> {
  return Promise.all(names.map((name) => moneyNode(t, url, name, { folder: logFolder(t), sizing, now })))
}

/** Asks until a request is admitted in memory, and gives back what it held for that. */
async function warm({ ledger }: { ledger: Ledger }, scopes: readonly Scope[], amount: bigint): Promise<void> {
  for (let i = 0; i < 200; i++) {
    const made = ledger.reserve(requestFor(scopes, amount))
    const inMemory = !(made instanceof Promise)
    await (await made).void()
    if (inMemory) return
  }
  throw new Error('nothing was admitted in memory')
}

async function slicesIn(url: string): Promise<Record<string, string>> {
  const server = await sharedPostgres()
  const rows = await server.sql(
    `select s.node, c.scope, s.amount::text from sluice.slice s join sluice.cell c on c.id = s.cell where s.amount > 0`,
    url
  )
  return Object.fromEntries(rows.map(({ node, scope: of, amount }) => [`${node} ${of}`, amount as string]))
}

test('the database gives as much as the algorithm says', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  await nodesOf(t, url, ['one'])
  const { below, pick } = chance(5)
  const cases = Array.from({ length: 300 }, () => ({
    free: BigInt(below(3000)) * pick([-1n, 1n, 1n, 1n, 10n ** 15n]),
    want: BigInt(1 + below(500)) * pick([1n, 10n ** 12n]),
    least: BigInt(below(100)),
    nodes: 1 + below(9)
  }))
  const rows = await server.sql(
    cases
      .map(
        ({ free, want, least, nodes }) => `select sluice.slice_1(${free}, ${want}, ${least}, ${nodes})::text as given`
      )
      .join(' union all '),
    url
  )
  t.same(
    rows.map(({ given }) => given as string),
    cases.map(({ free, want, least, nodes }) => String(grantOf(free, { want, least }, nodes)))
  )
})

test('far from the edge a hold is made in memory, and written a moment later', async (t) => {
  const url = await moneyBook()
  const [node] = await nodesOf(t, url, ['one'])
  const scopes = [scope('tenant', 'acme', 1_000_000n, 'month'), scope('key', 'laptop', 500_000n, '7d')]
  await warm(node!, scopes, 100n)
  const made = Array.from({ length: 20 }, () => node!.ledger.reserve(requestFor(scopes, 100n)))
  t.equal(made.filter((one) => one instanceof Promise).length, 0)
  const holds = made as Reservation[]
  for (const one of holds.slice(0, 10)) one.dispatched('openai')
  await Promise.all(holds.map((one) => one.durable))
  const server = await sharedPostgres()
  const [{ count, asked }] = await server.sql(
    `select count(*)::int as count, count(channel)::int as asked from sluice.hold`,
    url
  )
  t.same([count, asked], [20, 10], 'what was asked for meanwhile is in the same row')
  t.same(await brokenIn(url), [])
  t.match(
    (await node!.ledger.balances({ scope: 'tenant:acme' })).map(({ pending }) => pending),
    [2000n, 2000n]
  )

  // One that ends before it is written is written first.
  const early = node!.ledger.reserve(requestFor(scopes, 100n)) as Reservation
  const ended = early.settle(charge(30))
  const detached = node!.ledger.reserve(requestFor(scopes, 100n)) as Reservation
  await detached.detach(noon + 60_000)
  t.equal(node!.ledger.detached(detached.requestId), detached)
  await Promise.all([ended, detached.void(), ...holds.map((one, i) => (i % 2 ? one.void() : one.settle(charge(7))))])
  t.same((await endsIn(url)).get(early.requestId), ['settle 30 upstream'])
  t.same(await brokenIn(url), [])
  await node!.close()
  t.same(await slicesIn(url), {}, 'a node that ends gives back what it has')
})

test('10,000 requests in memory and not, for room of 5000', async (t) => {
  const url = await moneyBook()
  const nodes = await nodesOf(t, url, ['one', 'two', 'three'])
  const tenant = scope('tenant', 'acme', 50_000n, 'month')
  const callers = [
    [tenant, scope('project', 'acme/web'), scope('key', 'a', 10n ** 9n)],
    [tenant, scope('project', 'acme/web'), scope('key', 'b')],
    [tenant, scope('project', 'acme/app', 10n ** 9n, '30d'), scope('key', 'c')]
  ]
  for (const node of nodes) for (const scopes of callers) await warm(node, scopes, 10n)
  const counts = { memory: 0, decided: 0, refused: 0 }
  const waited: number[] = []
  const held: Reservation[] = []
  // The nodes are not equally busy, and some are done while others go on.
  const ask = async (node: MoneyNode, requests: number): Promise<void> => {
    for (let i = 0; i < requests; i++) {
      const made = node.ledger.reserve(requestFor(callers[i % 3]!, 10n))
      if (!(made instanceof Promise)) {
        counts.memory++
        held.push(made)
        if (i % 20 === 0) await made.durable
        continue
      }
      const began = performance.now()
      try {
        held.push(await made)
        counts.decided++
      } catch (error) {
        if (!(error instanceof GatewayError) || error.code !== 'quota_tenant_exceeded') throw error
        counts.refused++
      }
      waited.push(performance.now() - began)
    }
  }
  await Promise.all(nodes.flatMap((node, i) => Array.from({ length: 20 }, () => ask(node, [350, 100, 50][i]!))))
  t.equal(counts.memory + counts.decided, 5000)
  t.equal(counts.refused, 5000, 'and each is answered')
  t.ok(counts.memory > 500, `${counts.memory} in memory`)
  await Promise.all(held.map((one) => one.durable))
  waited.sort((a, b) => a - b)
  t.comment(
    `${JSON.stringify(counts)}; others waited p50 ${waited[waited.length >> 1]!.toFixed(1)} ms, p99 ${waited[Math.floor(waited.length * 0.99)]!.toFixed(1)} ms`
  )
  t.same(await brokenIn(url), [])
  const balances = await nodes[1]!.ledger.balances({ scope: 'tenant:acme' })
  t.equal(balances.find(({ window }) => window !== 'total')?.pending, 50_000n)
  await Promise.all(held.map((one, i) => (i % 2 ? one.void() : one.settle(charge(3)))))
  t.same(await brokenIn(url), [])
})

test('what idle nodes have is given back to who needs it', async (t) => {
  const url = await moneyBook()
  const nodes = await nodesOf(t, url, ['one', 'two', 'three'])
  const scopes = [scope('tenant', 'acme', 10_000n), scope('key', 'laptop')]
  for (const node of nodes) await warm(node, scopes, 10n)
  const slices = await slicesIn(url)
  t.equal(Object.keys(slices).length, 3)
  const [one] = nodes
  const made = await hold(one!.ledger, scopes, 10_000n)
  t.equal((await refusal(hold(nodes[1]!.ledger, scopes, 10n))).code, 'quota_tenant_exceeded')
  await made.void()
  t.same(await brokenIn(url), [])
})

for (const per of ['total', '7d'] as const)
  test(`what others have admitted in memory and not written is used, and nobody waits for it (${per})`, async (t) => {
    const server = await sharedPostgres()
    const url = await moneyBook()
    const proxy = await DatabaseProxy.start(t, server.socket)
    const large = { ...sizing, few: 400 }
    // It hears of nothing for long, and is not taken for gone.
    const lease = 600_000
    const one = await moneyNode(t, proxy.url(url), 'one', { folder: logFolder(t), sizing: large, now, lease })
    const two = await moneyNode(t, url, 'two', { folder: logFolder(t), sizing, now, lease })
    const scopes = [scope('tenant', 'acme', 10_000n, per), scope('key', 'laptop')]
    await warm(one, scopes, 10n)
    await one.flush()
    const slice = BigInt((await slicesIn(url))['one tenant:acme']!)
    // The node hears of no answer from here on, so that of many holds only some are ever written.
    proxy.loses = (sent) => sent.includes('money_batch')
    const made = Array.from({ length: Number(slice / 10n) }, () => one.ledger.reserve(requestFor(scopes, 10n)))
    t.ok(made.length > 150 && !made.some((one) => one instanceof Promise), `${made.length} in memory`)
    const unwritten = `select coalesce(sum(used), 0)::int as used from sluice.slice where node = 'one'`
    await eventually(async () => (await server.sql(unwritten, url))[0].used > 0)
    const rest = 10_000n - (slice / 10n) * 10n
    const { code, details } = await refusal(hold(two.ledger, scopes, rest + 10n))
    t.equal(code, 'quota_tenant_exceeded', 'it is used')
    t.match(details.reason, { per, left_nano: String(rest), free_at: per === '7d' ? '2026-11-28T12:00:00.000Z' : null })
    const rolling = [scopes[0]!, scope('key', 'phone', 10n ** 9n, '7d')]
    t.equal((await refusal(hold(two.ledger, rolling, rest + 10n))).code, 'quota_tenant_exceeded', 'also by a calendar')
    await (await hold(two.ledger, scopes, rest - slice - 10n)).void()
    proxy.loses = () => false
    proxy.goOn()
    await Promise.all(made.map(async (one) => (await one).durable))
    await (await hold(two.ledger, scopes, rest)).void()
    await Promise.all(made.map(async (one) => (await one).void()))
    t.same(await brokenIn(url), [])
  })

test('a limit that was changed counts at once', async (t) => {
  const url = await moneyBook()
  const [one, two] = await nodesOf(t, url, ['one', 'two'])
  const scopes = (limit: bigint): Scope[] => [scope('tenant', 'acme', limit), scope('key', 'laptop')]
  await warm(one!, scopes(10_000n), 10n)
  await warm(two!, scopes(10_000n), 10n)
  const held = await hold(one!.ledger, scopes(10_000n), 200n)
  t.equal((await refusal(hold(one!.ledger, scopes(205n), 10n))).code, 'quota_tenant_exceeded', 'lowered')
  const last = await hold(one!.ledger, scopes(210n), 10n)
  t.equal((await refusal(hold(two!.ledger, scopes(210n), 1n))).code, 'quota_tenant_exceeded', 'at another node, too')
  const more = await hold(two!.ledger, scopes(20_000n), 15_000n)
  t.pass('raised')
  await Promise.all([held, last, more].map((made) => made.void()))
  t.same(await brokenIn(url), [])
})

test('a rolling budget has slices, too, and its hours decide', async (t) => {
  const url = await moneyBook()
  const hour = 3_600_000
  let time = noon
  const nodes = await Promise.all(
    ['one', 'two'].map((name) => moneyNode(t, url, name, { folder: logFolder(t), sizing, now: () => time }))
  )
  const [one, two] = nodes
  const scopes = [scope('key', 'laptop', 10_000n, '1d')]
  const at = (ledger: Ledger, amount: bigint, when = time): Promise<Reservation> =>
    hold(ledger, scopes, amount, { time: when })
  await (await at(one!.ledger, 6000n)).settle(charge(6000))
  // How soon a node gets one depends on how often it asks.
  await eventually(async () => {
    for (const node of nodes) for (let i = 0; i < 20; i++) await (await at(node.ledger, 10n)).void()
    return Object.keys(await slicesIn(url)).length === 2
  })
  time += 23 * hour
  const made = await at(two!.ledger, 4000n)
  t.equal((await refusal(at(one!.ledger, 10n))).code, 'quota_key_exceeded', 'the first hour still counts')
  time += hour
  const after = await at(one!.ledger, 6000n)
  t.equal((await refusal(at(one!.ledger, 10n))).code, 'quota_key_exceeded')
  t.equal((await refusal(at(two!.ledger, 10n))).code, 'quota_key_exceeded')
  await Promise.all([made.void(), after.void()])
  t.same(await brokenIn(url), [])
})

test('a node that stands still keeps its slices for its lease, and admits nothing with them after it', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const lease = 4000
  const scopes = [scope('tenant', 'acme', 10_000n)]
  const options = { lease, sizing, now }
  const still = await moneyNode(t, proxy.url(url), 'still', { folder: logFolder(t), ...options })
  const other = await moneyNode(t, url, 'other', { folder: logFolder(t), ...options, patience: 500 })
  await warm(still, scopes, 10n)
  proxy.stand()
  const inMemory = still.ledger.reserve(requestFor(scopes, 10n)) as Reservation
  t.notOk(inMemory instanceof Promise, 'as long as its lease is sure')
  const shown = inMemory.durable.then(
    () => 'shown',
    () => 'not shown'
  )
  const { code } = await refusal(hold(other.ledger, scopes, 10_000n))
  t.equal(code, 'billing_unavailable', 'which may be asked again')
  let made: Reservation | undefined
  await eventually(
    () =>
      hold(other.ledger, scopes, 10_000n).then(
        (one) => Boolean((made = one)),
        () => false
      ),
    60_000
  )
  const late = still.ledger.reserve(requestFor(scopes, 10n))
  t.ok(late instanceof Promise, 'after it the database has to decide')
  const decided = refusal(late as Promise<Reservation>)
  proxy.goOn()
  t.equal(await shown, 'not shown')
  await t.rejects(inMemory.settle(charge(5)), { code: 'billing_unavailable' }, 'nor is its answer')
  t.match((await decided).code, /^(?:billing_unavailable|quota_tenant_exceeded)$/)
  t.same((await endsIn(url)).get(inMemory.requestId), undefined)
  await eventually(
    async () => (await refusal(hold(still.ledger, scopes, 10n))).code === 'quota_tenant_exceeded',
    20_000
  )
  await made!.void()
  t.same(await brokenIn(url), [])
})

test('a node that dies before its holds are written leaves nothing behind', async (t) => {
  const url = await moneyBook()
  const folder = logFolder(t)
  const scopes = [scope('tenant', 'acme', 10_000n)]
  const first = await moneyNode(t, url, 'one', { folder, sizing, now })
  await warm(first, scopes, 10n)
  await first.flush()
  const killed = first.kill()
  const made = Array.from({ length: 5 }, () => first.ledger.reserve(requestFor(scopes, 10n)))
  t.equal(made.filter((one) => one instanceof Promise).length, 0)
  await killed
  t.equal(Object.keys(await slicesIn(url)).length, 1)
  const again = await moneyNode(t, url, 'one', { folder, sizing, now })
  t.same(await slicesIn(url), {})
  const server = await sharedPostgres()
  const [{ holds }] = await server.sql('select count(*)::int as holds from sluice.hold', url)
  t.equal(holds, 0)
  await (await hold(again.ledger, scopes, 10_000n)).void()
  t.same(await brokenIn(url), [])
})

test('slices outlast a moment without the database, and nothing is shown before it is back', async (t) => {
  const server = await sharedPostgres()
  const url = await moneyBook()
  const proxy = await DatabaseProxy.start(t, server.socket)
  const node = await moneyNode(t, proxy.url(url), 'one', { folder: logFolder(t), sizing, now, patience: 5000 })
  const scopes = [scope('tenant', 'acme', 10n ** 9n)]
  await warm(node, scopes, 10n)
  proxy.stand()
  const made = node.ledger.reserve(requestFor(scopes, 10n)) as Reservation
  made.dispatched('openai')
  let shown = false
  void made.durable.then(
    () => (shown = true),
    () => {}
  )
  await sleep(700)
  t.equal(shown, false)
  const another = node.ledger.reserve(requestFor(scopes, 10n))
  t.notOk(another instanceof Promise, 'requests still begin')
  await eventually(async () => {
    try {
      await node.ledger.reserve(requestFor(scopes, 10n))
      return false
    } catch (error) {
      return error instanceof GatewayError && error.code === 'billing_unavailable'
    }
  }, 20_000)
  proxy.goOn()
  // Nobody waits longer for them; they are written all the same.
  await Promise.allSettled([made.settle(charge(3)), (another as Reservation).void()])
  await eventually(() => node.trouble === undefined, 20_000)
  await node.flush()
  t.same((await endsIn(url)).get(made.requestId), ['settle 3 upstream'])
  await (await hold(node.ledger, scopes, 10n)).void()
  await Promise.all(node.ledger.open.map((one) => one.void()))
  await node.flush()
  t.same(await brokenIn(url), [])
})
