// Every limit and every budget that a level may have is enforced there: a test for each level, kind and window, made
// from the lists of what the configuration takes. What is accepted and not enforced would pass unseen elsewhere.
import t from 'tap'
import { rightsShape } from '../../config/sections/tenants.ts'
import type { BudgetReason, LimitReason } from '../../core/errors.ts'
import { MemoryLimits } from '../../core/store/memory/limits.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import { bytes, head, until, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, key, Workbench } from '../kit/workbench.ts'
import type { Answer } from '../kit/workbench.ts'

const levels = ['tenant', 'project', 'member', 'key'] as const
type Level = (typeof levels)[number]

const { models: _models, ...rates } = rightsShape.limits.properties
/** What limits a level: all of its requests, or those for models that a name or a pattern matches. */
const patterns = [null, 'demo', 'de*'] as const
const windows = ['day', 'week', 'month', 'total', '1d', '30d', '366d'] as const

interface Case {
  name: string
  level: Level
  rights: Record<string, unknown>
}

/** The configuration of a case: a tenant of its own, with the rights at one level and two keys below it. */
function sectionsOf(cases: readonly Case[]): { tenants: Record<string, unknown>; keys: unknown[] } {
  const at = (one: Case, level: Level): Record<string, unknown> => (one.level === level ? one.rights : {})
  return {
    tenants: Object.fromEntries(
      cases.map((one) => [
        one.name,
        { ...at(one, 'tenant'), projects: { p: { ...at(one, 'project'), members: { m: at(one, 'member') } } } }
      ])
    ),
    keys: cases.flatMap((one) => {
      const owner = { tenant: one.name, project: 'p', member: 'm' }
      return [0, 1].map((number) =>
        key({ name: `${one.name}-${number}`, key: `sk-${one.name}-${number}`, ...owner, ...at(one, 'key') })
      )
    })
  }
}

/** The scope of a case at which it is limited. */
function scopeOf({ name, level }: Case): string {
  return { tenant: `tenant:${name}`, project: `project:${name}/p`, member: `member:${name}/p/m`, key: `key:${name}-0` }[
    level
  ]
}

const limitCases = levels.flatMap((level) =>
  Object.keys(rates).flatMap((kind) =>
    patterns.map((pattern, at) => {
      const limit = { [kind]: 1 }
      // Another pattern, which does not match, must count nothing.
      const limits = pattern === null ? limit : { models: { [pattern]: limit, other: { rpm: 1, concurrency: 1 } } }
      return { name: `${level}-${kind}-${at}`, level, kind, pattern, rights: { limits } }
    })
  )
)

t.test('each limit of each level, of all models and of patterns, lets one through and refuses the next', async (t) => {
  const upstream = await Upstream.start(t)
  const sections = { channels: { a: channelTo(upstream) }, ...sectionsOf(limitCases) }
  const bench = await Workbench.open(t, sections, { limits: new MemoryLimits(() => 3_600_000_000) })
  const send = (one: Case, number = 0): Promise<Answer> =>
    bench.send({ headers: { authorization: `Bearer sk-${one.name}-${number}` }, body: { max_tokens: 1 } })
  for (const one of limitCases) {
    const gate = Promise.withResolvers<void>()
    const answer = Buffer.from(JSON.stringify(chatAnswer()))
    const whole = head(200, { 'content-type': 'application/json', 'content-length': String(answer.length) })
    upstream.script(whole, until(gate.promise), bytes(answer))
    const before = upstream.requests.length
    const first = send(one)
    await upstream.request(before)
    const refused = await send(one)
    t.equal(refused.status, 429, one.name)
    const reason = refused.outcome.error!.details.reason as LimitReason
    t.match(
      reason,
      {
        by: 'limit',
        level: one.level,
        scope: scopeOf(one),
        limit_name: one.kind,
        models: one.pattern,
        limit: 1,
        left: 0
      },
      one.name
    )
    t.equal(JSON.parse(refused.body).error.code, `rate_limit_${one.kind}`)
    t.match(refused.body, one.level === 'key' ? /This API key/ : new RegExp(`The ${one.level} ${one.name}`))
    gate.resolve()
    t.equal((await first).status, 200, one.name)
    // Another key of the same member meets the limits of all levels but its own.
    const own = one.level === 'key' || one.kind === 'concurrency'
    if (own) upstream.json(chatAnswer())
    const other = await send(one, 1)
    t.equal(other.status, own ? 200 : 429, `${one.name}, another key`)
  }
})

const budgetCases = levels.flatMap((level) =>
  windows.map((per) => ({
    name: `${level}-${per}`,
    level,
    per,
    // One request is held with some 0.00008 USD and charged 0.000114.
    rights: {
      budget: [
        { usd: '0.00015', per },
        { usd: 1000, per: per === 'day' ? 'month' : 'day' }
      ]
    }
  }))
)

t.test('each budget of each level and window refuses what it cannot carry', async (t) => {
  const upstream = await Upstream.start(t)
  const store = await openStore({ file: ':memory:', durability: 'process' })
  t.teardown(() => store.close())
  const sections = { channels: { a: channelTo(upstream) }, ...sectionsOf(budgetCases) }
  const bench = await Workbench.open(t, sections, { ledger: store.ledger })
  for (const one of budgetCases) {
    const send = (): Promise<Answer> =>
      bench.send({ headers: { authorization: `Bearer sk-${one.name}-0` }, body: { max_tokens: 10 } })
    upstream.json(chatAnswer(100, 7))
    t.equal((await send()).status, 200, one.name)
    const refused = await send()
    t.equal(refused.status, 429, one.name)
    const { code, message } = JSON.parse(refused.body).error
    t.equal(code, `quota_${one.level}_exceeded`)
    const reason = refused.outcome.error!.details.reason as BudgetReason
    t.match(
      reason,
      {
        by: 'budget',
        level: one.level,
        scope: scopeOf(one),
        per: one.per,
        limit_nano: '150000',
        posted_nano: '114000'
      },
      one.name
    )
    t.equal(reason.free_at === null, one.per === 'total', one.name)
    if (reason.free_at !== null) {
      t.ok(Date.parse(reason.free_at) > Date.now(), one.name)
      t.ok(message.includes(reason.free_at.slice(0, 16)), message)
    }
    const shown = store.ledger.balances({ scope: scopeOf(one) }).find(({ limit }) => limit === 150_000n)
    t.match(shown, { posted: 114_000n, pending: 0n }, one.name)
  }
})
