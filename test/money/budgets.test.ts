// Budgets under a rush, and at midnight: exactly what fits is admitted, and what was refused has touched nothing.
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { gateway } from '../kit/gateway.ts'
import { nanoCost } from '../kit/oracle.ts'
import { eventually, settled } from '../kit/probe.ts'
import { PlannedUpstream } from './planned.ts'
import type { Plan } from './planned.ts'
import { ask, bodyOf, configOf, endings, folder, journal, key, prices } from './rig.ts'
import type { Asking, More, Seen } from './rig.ts'

t.setTimeout(600_000)

const rush = 500
const fits = 7
const output = 60
const model = 'odd'
const asking: Asking = { model, body: { max_tokens: output } }

/** A request that turns out as dear as it can: a token for each byte of its body, and all the output it asked for. */
function worst(id: string, more: Asking = asking): Plan {
  // The length stands in the body itself, with three digits.
  const plan: Plan = { id, units: { input: 100, output }, words: 3 }
  return { ...plan, units: { input: bodyOf(plan, more).length, output } }
}

const worstCost = nanoCost(worst('r000').units, prices[model]!)
const budget = { usd: dollars(worstCost * BigInt(fits)), per: 'month' }

function dollars(nano: bigint): string {
  const digits = String(nano).padStart(10, '0')
  return `${digits.slice(0, -9)}.${digits.slice(-9)}`
}

/** Who has the budget in each race; the key's name is that of the race. */
const levels: Readonly<Record<string, { tenants: More; key: More; code: string }>> = {
  tenant: { tenants: { t1: { budget } }, key: { tenant: 't1' }, code: 'quota_tenant_exceeded' },
  project: {
    tenants: { t2: { projects: { web: { budget } } } },
    key: { tenant: 't2', project: 'web' },
    code: 'quota_project_exceeded'
  },
  member: {
    tenants: { t3: { projects: { web: { members: { alice: { budget } } } } } },
    key: { tenant: 't3', project: 'web', member: 'alice' },
    code: 'quota_member_exceeded'
  },
  key: { tenants: { t4: {} }, key: { tenant: 't4', budget }, code: 'quota_key_exceeded' }
}

async function race(
  t: Test,
  url: string,
  adminUrl: string,
  upstream: PlannedUpstream,
  name: string,
  code: string,
  headers: Record<string, string> = {}
): Promise<Seen[]> {
  const before = upstream.count
  const gate = Promise.withResolvers<void>()
  upstream.gate = gate.promise
  const answers = Array.from({ length: rush }, (_, i) =>
    ask(url, worst(`r${String(i).padStart(3, '0')}`), { ...asking, key: name, headers })
  )
  // Those that were let in wait at the upstream until the last of the others has its answer.
  let refusals = 0
  for (const answer of answers) void answer.then(() => refusals++)
  await eventually(() => refusals === rush - fits && upstream.count - before === fits, 30_000).catch(() => {})
  t.equal(refusals, rush - fits, `${name}: refused while the others run`)
  const held = ((await (await fetch(`${adminUrl}/admin/v1/balances?limit=1000`)).json()) as { data: any[] }).data
  const total = held.find((one) => one.scope === `key:${name}` && one.window === 'total')
  t.match(
    total,
    { posted_nano: '0', pending_nano: String(worstCost * BigInt(fits)) },
    `${name}: held is what was let in, no more`
  )
  gate.resolve()
  const seen = await Promise.all(answers)
  const admitted = seen.filter(({ status }) => status === 200)
  const refused = seen.filter(({ status }) => status !== 200)
  t.equal(admitted.length, fits, `${name}: as many as the budget carries`)
  t.equal(upstream.count - before, fits, `${name}: no other reached the upstream`)
  t.ok(
    admitted.every(({ ended }) => ended),
    name
  )
  const odd = refused.filter(
    (one) =>
      one.status !== 429 ||
      one.code !== code ||
      one.headers['x-should-retry'] !== 'false' ||
      'retry-after' in one.headers ||
      'retry-after-ms' in one.headers ||
      JSON.parse(one.text).error.type !== 'quota_error'
  )
  t.same(odd.slice(0, 2), [], `${name}: refused with the scope, and not to be tried again`)
  return seen
}

t.test(
  `${rush} at once on a budget for ${fits} of them, at every level: ${fits} pass, to the nano-dollar`,
  async (t) => {
    const upstream = await PlannedUpstream.start(t)
    const file = join(folder(t), 'sluice.db')
    const tenants = Object.assign({ acme: {} }, ...Object.values(levels).map((level) => level.tenants)) as More
    const limits = { rpm: 2000, tpm: 100_000_000, concurrency: 1_000_000 }
    const config = configOf([upstream], {
      store: { sqlite: file, durability: 'process' },
      tenants,
      keys: Object.entries(levels).map(([name, { key: more }]) => key(name, { limits, ...more }))
    })
    const running = await gateway(t, JSON.stringify(config))
    const everyone: Seen[] = []
    for (const [name, { code }] of Object.entries(levels))
      everyone.push(...(await race(t, running.url, running.adminUrl, upstream, name, code)))

    // A key that did not exist a moment ago.
    const body = JSON.stringify({ name: 'fresh', tenant: 'acme', limits, budget })
    const made = (await (
      await fetch(`${running.adminUrl}/admin/v1/keys`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body
      })
    ).json()) as { key: string }
    const fresh = { authorization: `Bearer ${made.key}` }
    everyone.push(...(await race(t, running.url, running.adminUrl, upstream, 'fresh', 'quota_key_exceeded', fresh)))
    await settled(t, running)

    const { data } = await running.admin('/admin/v1/balances?limit=1000')
    for (const { scope, window, limit_nano: limit, posted_nano: posted, pending_nano: pending } of data) {
      const spent = String(worstCost * BigInt(fits))
      t.same({ posted, pending }, { posted: spent, pending: '0' }, `${scope} in ${window}`)
      if (limit !== null) t.equal(posted, limit, `${scope}: spent to the last nano-dollar, and no more`)
    }
    // The rest of the limits shows that nothing was taken by those that were refused: this request is one more.
    for (const name of [...Object.keys(levels), 'fresh']) {
      const headers = name === 'fresh' ? fresh : { authorization: `Bearer sk-money-${name}-000000000000` }
      const listed = await fetch(`${running.url}/v1/models`, { headers })
      t.equal(listed.headers.get('x-ratelimit-limit'), '2000')
      t.ok(
        Number(listed.headers.get('x-ratelimit-remaining')) >= 2000 - fits - 1,
        `${name}: rates know of those alone that were let in`
      )
    }
    await running.gateway.close()
    const { ends, twice } = endings(journal(file))
    t.same(twice, [])
    t.equal(ends.size, 5 * fits, 'the ledger has only those that were let in')
    t.same(everyone.filter(({ id, status }) => (status === 200) !== ends.has(id!)).slice(0, 2), [])
    t.same(verify(file), [])
  }
)

t.test('a day and a month end at midnight UTC, and what was reserved before belongs to the old one', async (t) => {
  const clock = { at: Date.UTC(2026, 11, 31, 23, 59, 59, 900) }
  const { now } = Date
  Date.now = () => clock.at
  t.teardown(() => void (Date.now = now))
  const upstream = await PlannedUpstream.start(t)
  const file = join(folder(t), 'sluice.db')
  const two = { usd: dollars(worstCost * 2n), per: 'day' }
  const config = configOf([upstream], {
    store: { sqlite: file, durability: 'process' },
    tenants: { acme: { budget: { usd: dollars(worstCost * 3n), per: 'month' } } },
    keys: [key('daily', { budget: two }), key('forever', { budget: { ...two, per: 'total' } })]
  })
  const running = await gateway(t, JSON.stringify(config))
  const send = (id: string, name = 'daily'): Promise<Seen> => ask(running.url, worst(id), { ...asking, key: name })
  const posted = async (scope: string, window: string): Promise<string | undefined> =>
    (await running.admin(`/admin/v1/balances?scope=${scope}`)).data.find((one: any) => one.window === window)
      ?.posted_nano
  const cost = (count: number): string => String(worstCost * BigInt(count))

  const gate = Promise.withResolvers<void>()
  upstream.gate = gate.promise
  const over = [send('n000'), send('n001')]
  await eventually(() => upstream.count === 2)
  t.match(await send('n002'), { status: 429, code: 'quota_key_exceeded' }, 'two are held, and the day has no more')
  // Midnight, and new year.
  clock.at += 200
  const late = send('n003')
  await eventually(() => upstream.count === 3)
  gate.resolve()
  t.match(
    await Promise.all([...over, late]),
    [{ ended: true }, { ended: true }, { ended: true }],
    'the new day has its own budget while the old one is still settled'
  )
  await settled(t, running)
  t.equal(await posted('key:daily', '2027-01-01'), cost(1))
  t.equal(await posted('tenant:acme', '2027-01'), cost(1))
  t.equal(await posted('key:daily', 'total'), cost(3))
  t.match(await send('n004'), { ended: true })
  t.match(await send('n005'), { status: 429, code: 'quota_key_exceeded' })
  t.match(await send('n006', 'forever'), { ended: true })
  t.match(await send('n007', 'forever'), { status: 429, code: 'quota_tenant_exceeded' }, 'the month is used up')
  // A clock that is set back spends what is left of the old month, and no more.
  clock.at = Date.UTC(2026, 11, 31, 12)
  t.match(await send('n008', 'forever'), { ended: true })
  t.match(await send('n009', 'daily'), { status: 429, code: 'quota_tenant_exceeded' })
  clock.at = Date.UTC(2027, 1, 1)
  t.match(await send('n010'), { ended: true }, 'february')
  t.match(
    await send('n011', 'forever'),
    { status: 429, code: 'quota_key_exceeded' },
    'what has no window never comes back'
  )
  await settled(t, running)
  await running.gateway.close()

  const entries = journal(file)
  const byDay = new Map<string, bigint>()
  for (const { ts_ms: at, amount } of entries as unknown as { ts_ms: bigint; amount: bigint }[]) {
    const day = new Date(Number(at)).toISOString().slice(0, 10)
    byDay.set(day, (byDay.get(day) ?? 0n) + amount)
  }
  t.same([...byDay].sort(), [
    ['2026-12-31', worstCost * 3n],
    ['2027-01-01', worstCost * 3n],
    ['2027-02-01', worstCost]
  ])
  t.same(verify(file), [])
})
