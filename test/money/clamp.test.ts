// The end of a budget with `clamp_output`: requests get the output that is left, never more, and everything that is
// left is held for them.
import { join } from 'node:path'
import t from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { gateway } from '../kit/gateway.ts'
import { nanoCost } from '../kit/oracle.ts'
import { eventually, settled } from '../kit/probe.ts'
import { Upstream } from '../kit/upstream.ts'
import { PlannedUpstream } from './planned.ts'
import type { Plan } from './planned.ts'
import { ask, bodyOf, chance, configOf, folder, key, prices } from './rig.ts'
import type { Asking, More } from './rig.ts'

t.setTimeout(600_000)

const price = prices['plain']!

/**
 * One request at the end of a budget that pays for its input and `tokens` of output for each answer, and a little more.
 */
interface Case {
  body: More
  tokens: number
  /** Nano-dollars beyond that; less than a token costs. */
  more?: bigint
  /** Fields as the upstream gets them; undefined: the request is refused. */
  sent: More | undefined
  /** Nothing had to be lowered. */
  whole?: true
}

const cases: Readonly<Record<string, Case>> = {
  max_tokens: { body: { max_tokens: 100 }, tokens: 20, sent: { max_tokens: 20 } },
  max_completion_tokens: { body: { max_completion_tokens: 100 }, tokens: 20, sent: { max_completion_tokens: 20 } },
  both: {
    body: { max_tokens: 100, max_completion_tokens: 50 },
    tokens: 20,
    sent: { max_tokens: 20, max_completion_tokens: 20 }
  },
  'both, one of them low enough': {
    body: { max_tokens: 100, max_completion_tokens: 10 },
    tokens: 20,
    sent: { max_tokens: 20, max_completion_tokens: 10 }
  },
  neither: { body: {}, tokens: 20, sent: { max_completion_tokens: 20 } },
  'one that is null': { body: { max_tokens: null }, tokens: 20, sent: { max_tokens: null, max_completion_tokens: 20 } },
  'three answers': { body: { max_tokens: 100, n: 3 }, tokens: 20, sent: { max_tokens: 20, n: 3 } },
  'almost another token': { body: { max_tokens: 100 }, tokens: 20, more: 9999n, sent: { max_tokens: 20 } },
  'one token': { body: { max_tokens: 100 }, tokens: 1, sent: { max_tokens: 1 } },
  'almost one token': { body: { max_tokens: 100 }, tokens: 0, more: 9999n, sent: undefined },
  'not even the input': { body: { max_tokens: 100 }, tokens: -1, sent: undefined },
  'just enough': { body: { max_tokens: 20 }, tokens: 20, sent: { max_tokens: 20 }, whole: true },
  'more than enough': { body: { max_tokens: 20 }, tokens: 25, sent: { max_tokens: 20 }, whole: true }
}

const limits = ['max_tokens', 'max_completion_tokens', 'n'] as const

function planOf(name: string, { body, tokens }: Case): { plan: Plan; asking: Asking; left: bigint } {
  const count = Number(body['n'] ?? 1)
  const asking: Asking = { key: name.replaceAll(/\W/g, '-'), body }
  // As dear as it can get: a token for each byte, whose number has three digits.
  const used = Math.min(tokens, Number(body['max_completion_tokens'] ?? body['max_tokens'] ?? 99)) * count
  const plan: Plan = {
    id: name,
    units: { input: 100, output: Math.max(used, 1) },
    words: 2,
    fault: 'break',
    channel: 'first'
  }
  const input = bodyOf(plan, asking).length
  return {
    plan: { ...plan, units: { ...plan.units, input } },
    asking,
    left: tokens < 0 ? 5n : nanoCost({ input, output: tokens * count }, price)
  }
}

function usd(nano: bigint): string {
  const digits = String(nano).padStart(10, '0')
  return `${digits.slice(0, -9)}.${digits.slice(-9)}`
}

function fieldsOf(body: More): More {
  return Object.fromEntries(limits.filter((field) => field in body).map((field) => [field, body[field]]))
}

t.test('output is lowered to what is left, in the fields of the client, on every channel that is tried', async (t) => {
  const upstreams = [await PlannedUpstream.start(t, 'first'), await PlannedUpstream.start(t, 'second')]
  const file = join(folder(t), 'sluice.db')
  const all = Object.entries(cases).map(([name, one]) => ({
    name,
    ...one,
    ...planOf(name, one),
    budget: planOf(name, one).left + (one.more ?? 0n)
  }))
  const keys = all.map(({ asking, budget }) => key(asking.key!, { budget: { usd: usd(budget), per: 'total' } }))
  const running = await gateway(
    t,
    JSON.stringify(
      configOf(upstreams, { store: { sqlite: file, durability: 'process' }, keys, quota: { clamp_output: true } })
    )
  )
  for (const { name, plan, asking, budget, sent, whole, tokens } of all) {
    const gate = Promise.withResolvers<void>()
    for (const upstream of upstreams) upstream.gate = gate.promise
    const answer = ask(running.url, plan, asking)
    if (!sent) {
      t.match(await answer, { status: 429, code: 'quota_key_exceeded' }, `${name}: refused`)
      t.notOk(upstreams[0]!.seen.has(name), `${name}: and not sent`)
      continue
    }
    await eventually(() => upstreams[0]!.seen.has(name))
    const {
      data: [held]
    } = await running.admin(`/admin/v1/balances?scope=key:${asking.key}`)
    if (!whole) t.match(held, { pending_nano: String(budget), left_nano: '0' }, `${name}: all that is left is held`)
    gate.resolve()
    const seen = await answer
    t.match(seen, { status: 200, ended: true }, name)
    t.equal(seen.headers['x-sluice-max-output'], whole ? undefined : String(tokens), `${name}: the reply says so`)
    for (const upstream of upstreams)
      t.same(fieldsOf(upstream.seen.get(name)![0]), sent, `${name}: as ${upstream.name} got it`)
    await eventually(
      async () => (await running.admin(`/admin/v1/balances?scope=key:${asking.key}`)).data[0].pending_nano === '0'
    )
    const {
      data: [spent]
    } = await running.admin(`/admin/v1/balances?scope=key:${asking.key}`)
    t.equal(spent.posted_nano, String(nanoCost(plan.units, price)), `${name}: what it used is charged`)
    t.ok(BigInt(spent.posted_nano) <= budget, `${name}: and nothing is overspent`)
  }
  await settled(t, running)
  await running.gateway.close()
  t.same(verify(file), [])
})

t.test('output of Gemini is lowered in the settings of the client, by whichever names they came', async (t) => {
  const settings: readonly { asked: More; sent: More }[] = [
    {
      asked: { generationConfig: { maxOutputTokens: 100, topK: 3 } },
      sent: { generationConfig: { maxOutputTokens: 20, topK: 3 } }
    },
    {
      asked: { generation_config: { max_output_tokens: 100 } },
      sent: { generation_config: { max_output_tokens: 20 } }
    },
    { asked: { generation_config: { top_k: 3 } }, sent: { generation_config: { top_k: 3, maxOutputTokens: 20 } } },
    {
      asked: { generationConfig: { max_output_tokens: 100, maxOutputTokens: 10 } },
      sent: { generationConfig: { max_output_tokens: 20, maxOutputTokens: 10 } }
    },
    { asked: {}, sent: { generationConfig: { maxOutputTokens: 20 } } }
  ]
  const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }]
  const keys = settings.map(({ asked }, index) => {
    const input = Buffer.byteLength(JSON.stringify({ contents, ...asked }))
    return {
      name: `gemini-${index}`,
      key: `sk-gemini-${index}-00000000000000000000`,
      tenant: 'acme',
      budget: { usd: usd(BigInt(input) * 1000n + 20n * 2000n), per: 'total' }
    }
  })
  const upstream = await Upstream.start(t)
  const chain = [
    { auth: {} },
    { quota: { clamp_output: true } },
    { route: { repeats: 0 } },
    { 'protocol-translate': {} },
    { 'usage-meter': {} },
    { log: { sink: 'none' } }
  ]
  const running = await gateway(
    t,
    { channels: { up: { protocol: 'gemini' } }, keys, chain },
    { upstreams: { up: upstream } }
  )
  for (const [index, { asked, sent }] of settings.entries()) {
    upstream.json({
      candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'x' }] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 }
    })
    const reply = await running.ask({
      path: '/v1beta/models/test-model:generateContent',
      headers: { authorization: `Bearer ${keys[index]!.key}` },
      body: { contents, ...asked }
    })
    t.match(reply, { status: 200, headers: { 'x-sluice-max-output': '20' } }, JSON.stringify(asked))
    t.same(JSON.parse(upstream.requests.at(-1)!.body.toString()), { contents, ...sent })
  }
})

t.test(
  'the output allowed is the most that is affordable, whatever the price, and two at once share one budget',
  async (t) => {
    const upstream = await PlannedUpstream.start(t)
    const random = chance(99)
    const tries = Array.from({ length: 60 }, (_, i) => {
      const body = { max_tokens: 50 + random(2000), ...(random(2) && { n: 1 + random(4) }) }
      const asking: Asking = { key: `r${100 + i}`, model: Object.keys(prices)[random(5)]!, body }
      const plan: Plan = { id: `r${100 + i}`, units: { input: 1, output: 1 }, words: 1 }
      return {
        asking,
        plan,
        most: body.max_tokens,
        count: body.n || 1,
        budget: BigInt(1 + random(300_000)) * BigInt(1 + random(300))
      }
    })
    const keys = tries.map(({ asking, budget }) => key(asking.key!, { budget: { usd: usd(budget), per: 'total' } }))
    const file = join(folder(t), 'sluice.db')
    const running = await gateway(
      t,
      JSON.stringify(
        configOf([upstream], { store: { sqlite: file, durability: 'process' }, keys, quota: { clamp_output: true } })
      )
    )
    let lowered = 0
    for (const { asking, plan, most, count, budget } of tries) {
      const dollars = prices[asking.model!]!
      const [input, output] = [dearest(dollars, /input|cache_write/), dearest(dollars, /output/)]
      const bytes = bodyOf(plan, asking).length
      const affords = (tokens: number): boolean =>
        nanoCost({ [input]: bytes, [output]: tokens * count, request: 1 }, dollars) <= budget
      let expected = most
      while (expected > 0 && !affords(expected)) expected--
      const gate = Promise.withResolvers<void>()
      upstream.gate = gate.promise
      const first = ask(running.url, plan, asking)
      if (expected === 0) {
        t.match(await first, { status: 429, code: 'quota_key_exceeded' })
        continue
      }
      await eventually(() => upstream.seen.has(plan.id))
      if (expected < most)
        t.match(await ask(running.url, plan, asking), { status: 429 }, 'a second one finds nothing left')
      gate.resolve()
      const { headers } = await first
      t.equal(
        headers['x-sluice-max-output'],
        expected === most ? undefined : String(expected),
        `${budget} nano-dollars of ${asking.model} for ${count} × ${most}`
      )
      if (expected < most) lowered++
    }
    t.ok(lowered > 10, `${lowered} were lowered`)
    await settled(t, running)
  }
)

function dearest(dollars: Readonly<Record<string, string>>, kind: RegExp): string {
  return Object.keys(dollars)
    .filter((name) => kind.test(name))
    .sort((a, b) => Number(dollars[b]) - Number(dollars[a]))[0]!
}

t.test('without the option such a request is refused', async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const { plan, asking, left } = planOf('max_tokens', cases['max_tokens']!)
  const keys = [key(asking.key!, { budget: { usd: usd(left), per: 'total' } })]
  const running = await gateway(t, JSON.stringify(configOf([upstream], { store: { sqlite: ':memory:' }, keys })))
  t.match(await ask(running.url, plan, asking), { status: 429, code: 'quota_key_exceeded' })
  t.equal(upstream.count, 0)
})
