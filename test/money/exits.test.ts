// Every way in which an exchange can end, and what it leaves in the books: one end, the right charge, nothing held, no
// slot taken.
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { connect } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { nanoCost } from '../kit/oracle.ts'
import { eventually } from '../kit/probe.ts'
import { quiet } from './audit.ts'
import { PlannedUpstream } from './planned.ts'
import type { Plan } from './planned.ts'
import { ask, bodyOf, configOf, endings, folder, journal, key, prices, secretOf } from './rig.ts'
import type { Asking, Entry, More } from './rig.ts'

t.setTimeout(600_000)

const units = { input: 300, output: 40, reasoning: 10 }
const full = nanoCost(units, prices['plain']!)
/** On a model whose channels do not wait long for an upstream that is silent. */
const hasty = 'odd'

/** One way to end. */
interface Exit {
  plan?: Partial<Plan>
  asking?: Asking
  /** The client leaves as soon as the upstream has the request. */
  leaves?: true
  /** The terminal entry: what is charged, and as what. Undefined: the ledger never heard of it. */
  end?: 'nothing' | { charge: 'all' | 'part'; source: 'upstream' | 'partial' | 'estimated' }
  /** Rows of attempts beside it: which cost nothing, and which the prompt or more. */
  costs?: readonly ('zero' | 'some')[]
  outcome: string
}

const charged = { charge: 'all', source: 'upstream' } as const
const partly = { charge: 'part', source: 'partial' } as const
const stream = { stream: true }
/** Slow enough for a client to leave in the midst of it. */
const slow = { words: 30, gap: 8 }

const always: Readonly<Record<string, Exit>> = {
  'a whole answer': { end: charged, outcome: 'completed' },
  'a whole stream': { asking: stream, end: charged, outcome: 'completed' },
  'a key that is none': { asking: { key: 'nobody' }, outcome: 'rejected' },
  'a model that is none': { asking: { model: 'nothing' }, outcome: 'rejected' },
  'a limit that is none': { asking: { body: { max_tokens: -1 } }, outcome: 'rejected' },
  'a budget that is used up': { asking: { key: 'poor' }, outcome: 'rejected' },
  'a rate that is used up': { asking: { key: 'slow' }, end: 'nothing', outcome: 'rejected' },
  'refused by the upstream': { plan: { fault: 'refuse' }, end: 'nothing', costs: ['zero'], outcome: 'failed' },
  'failed by all upstreams': { plan: { fault: 'break' }, end: 'nothing', costs: ['zero', 'zero'], outcome: 'failed' },
  'cut by all upstreams before the head': {
    plan: { fault: 'reset' },
    end: 'nothing',
    costs: ['some', 'some'],
    outcome: 'failed'
  },
  'an error in a 200': { plan: { fault: 'error-in-200' }, end: 'nothing', costs: ['some', 'some'], outcome: 'failed' },
  'a body that breaks off': { plan: { fault: 'cut' }, end: 'nothing', costs: ['some', 'some'], outcome: 'failed' },
  'silence instead of an answer': {
    plan: { fault: 'hold' },
    asking: { ...stream, model: hasty },
    end: 'nothing',
    costs: ['some', 'some'],
    outcome: 'failed'
  },
  'another channel after one that failed': {
    plan: { fault: 'break', channel: 'first' },
    end: charged,
    costs: ['zero'],
    outcome: 'completed'
  },
  'another channel after one that cut': {
    plan: { fault: 'reset', channel: 'first' },
    asking: stream,
    end: charged,
    costs: ['some'],
    outcome: 'completed'
  },
  'a stream that is cut': { plan: { fault: 'cut', ...slow }, asking: stream, end: partly, outcome: 'failed' },
  'a stream that ends too early': {
    plan: { fault: 'end-early', ...slow },
    asking: stream,
    end: partly,
    outcome: 'failed'
  },
  'a stream that falls silent': {
    plan: { stopAt: 20, ...slow },
    asking: { ...stream, model: hasty },
    end: partly,
    outcome: 'failed'
  },
  'a client that leaves before the head': {
    plan: { fault: 'hold' },
    leaves: true,
    end: { charge: 'part', source: 'estimated' },
    outcome: 'aborted'
  },
  'a client that leaves before the head of a stream': {
    plan: { fault: 'hold' },
    asking: stream,
    leaves: true,
    end: { charge: 'part', source: 'estimated' },
    outcome: 'aborted'
  }
}

const gone = (plan: Partial<Plan>, end: Exit['end'], leave: Asking = { leaveAt: 600 }): Exit => ({
  plan: { ...slow, ...plan },
  asking: { ...stream, ...leave },
  end: end!,
  outcome: 'aborted'
})

const drained: Readonly<Record<string, Exit>> = {
  'gone in the midst of a stream that is read on': gone({}, charged),
  'gone after the head of a stream that is read on': gone({}, charged, { leaveAt: 0 }),
  'gone from a stream that falls silent': gone({ stopAt: 12 }, partly),
  'gone from a stream that falls silent after the text': gone(
    { stopAt: 'usage' },
    { charge: 'part', source: 'estimated' }
  ),
  'gone from a stream that falls silent after its usage': gone({ stopAt: 'done' }, charged, {
    leaveOn: '"finish_reason":"stop"'
  })
}
const aborted: Readonly<Record<string, Exit>> = {
  'gone in the midst of a stream that is not read on': gone({}, partly),
  'gone from a stream after its usage': gone({ stopAt: 'done', place: 'choice' }, charged, { leaveOn: '"usage"' })
}
const bounded: Readonly<Record<string, Exit>> = {
  'gone from a stream that is longer than what may be read on': gone({}, partly)
}
const crowded: Readonly<Record<string, Exit>> = { 'gone from a stream when no more may be read on': gone({}, partly) }

const groups: readonly [string, More, Readonly<Record<string, Exit>>][] = [
  ['by default', { disconnect_drain: { time: '10s' } }, { ...always, ...pick(drained, 2) }],
  [
    'reading on for a short while',
    { disconnect_drain: { time: '2s' } },
    Object.fromEntries(Object.entries(drained).slice(2))
  ],
  ['without reading on', { on_disconnect: 'abort' }, aborted],
  ['reading on for some bytes', { disconnect_drain: { time: '5s', bytes: '1KiB' } }, bounded],
  ['reading on for nobody', { disconnect_drain: { concurrent: 0 } }, crowded]
]

function pick<T>(table: Readonly<Record<string, T>>, count: number): Record<string, T> {
  return Object.fromEntries(Object.entries(table).slice(0, count))
}

interface Bench {
  running: LocalGateway
  upstreams: PlannedUpstream[]
  file: string
}

async function open(t: Test, limits: More): Promise<Bench> {
  const upstreams = [await PlannedUpstream.start(t, 'first'), await PlannedUpstream.start(t, 'second')]
  const file = join(folder(t), 'sluice.db')
  const one = { limits: { concurrency: 1 } }
  const config = configOf(upstreams, {
    limits,
    store: { sqlite: file, durability: 'process' },
    keys: [
      key('test', one),
      key('poor', { ...one, budget: { usd: 0.000001, per: 'total' } }),
      key('slow', { limits: { concurrency: 1, rpm: 1 } })
    ]
  }) as { channels: Record<string, { models: object; timeouts?: object }>; models: Record<string, object> }
  for (const [name, channel] of Object.entries(config.channels)) {
    config.channels[`hasty-${name}`] = {
      ...channel,
      models: { [hasty]: hasty },
      timeouts: { first_byte: '300ms', idle: '300ms' }
    }
    channel.models = { plain: 'plain' }
  }
  for (const name of Object.keys(config.models)) if (name !== 'plain' && name !== hasty) delete config.models[name]
  return { upstreams, file, running: await gateway(t, JSON.stringify(config)) }
}

/** Waits until nothing runs and the database has all that ran, then checks that nothing is held. */
async function settled(t: Test, { running }: Bench, title: string): Promise<void> {
  await quiet(t, running)
  const { data } = await running.admin('/admin/v1/balances?limit=1000')
  t.same(
    data.filter((balance: any) => balance.pending_nano !== '0'),
    [],
    `${title}: nothing is held`
  )
}

function checkEnd(
  t: Test,
  title: string,
  { end, costs = [], asking: { model = 'plain' } = {} }: Exit,
  entries: readonly Entry[]
): void {
  const terminal = entries.filter(({ class: kind }) => kind === 'terminal')
  if (end === undefined) return void t.same(entries, [], `${title}: the ledger never heard of it`)
  if (terminal.length !== 1) return void t.fail(`${title}: ends ${terminal.length} times`)
  const [{ kind, amount, source, usage }] = terminal as [Entry]
  if (end === 'nothing') t.match({ kind, amount, source }, { kind: 'void', amount: 0n, source: null }, title)
  else {
    t.match({ kind, source }, { kind: 'settle', source: end.source }, title)
    t.equal(amount, nanoCost(usage!, prices[model]!), `${title}: its usage at its price`)
    t.ok(end.charge === 'all' ? amount === full : amount > 0n && amount < full * 2n, `${title}: ${amount} of ${full}`)
  }
  const attempts = entries.filter((entry) => entry.kind === 'cost')
  t.same(
    attempts.map((cost) => (cost.amount === 0n ? 'zero' : 'some')),
    costs,
    `${title}: what its attempts cost`
  )
}

for (const [name, limits, exits] of groups) {
  t.test(`${name}: every exchange ends once, with what is due`, async (t) => {
    const bench = await open(t, limits)
    const { running, upstreams, file } = bench
    await ask(running.url, { id: 'uses up the rate', units, words: 1 }, { key: 'slow' })
    await settled(t, bench, 'before')
    let ended = 1
    for (const [title, exit] of Object.entries(exits)) {
      const plan: Plan = { id: title, units, words: 20, ...exit.plan }
      const before = journal(file).length
      const leave = exit.leaves && eventually(() => upstreams[0]!.seen.has(title))
      const seen = await ask(running.url, plan, { ...exit.asking, ...(leave && { leave }) })
      await settled(t, bench, title)
      const [record] = (await running.admin('/admin/v1/requests?limit=1')).data
      const entries = journal(file).slice(before)
      checkEnd(t, title, exit, entries)
      const due = entries.find(({ class: kind }) => kind === 'terminal')?.amount ?? 0n
      t.match(record, { outcome: exit.outcome, cost_nano: String(due) }, `${title}: its record`)
      if (seen.id !== undefined) t.equal(record.request_id, seen.id)
      if (entries.length > 0) ended++
      // The key has one slot: had the exchange kept it, this would be refused.
      if (exit.asking?.key === undefined) {
        const next = await ask(running.url, { id: `after ${title}`, units, words: 1 })
        t.equal(next.status, 200, `${title}: its slot is free`)
        ended++
        await settled(t, bench, `after ${title}`)
      }
    }
    await running.gateway.close()
    const { ends, twice } = endings(journal(file))
    t.same(twice, [])
    t.equal(ends.size, ended)
    t.same(verify(file), [])
  })
}

t.test('a client that reads nothing is cut, and charged for what was delivered', async (t) => {
  const bench = await open(t, { client_stall: '300ms' })
  const { running, file } = bench
  const client = await connect(t, running.url)
  client.stopReading()
  const plan: Plan = { id: 'stalled', units, words: 100_000 }
  const headers = { authorization: `Bearer ${secretOf('test')}` }
  client.send({ path: '/v1/chat/completions', headers, body: bodyOf(plan, stream) })
  await eventually(() => bench.upstreams[0]!.seen.has('stalled'))
  await settled(t, bench, 'stalled')
  const [end] = journal(file)
  t.match(end, { kind: 'settle', source: 'partial' })
  t.equal(end!.amount, nanoCost(end!.usage!, prices['plain']!))
  t.ok(end!.usage!['output']! > 1000, `${end!.usage!['output']} tokens`)
})

t.test('a drain lets streams end that can, cuts the others, and settles all of them', async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const file = join(folder(t), 'sluice.db')
  const running = await gateway(
    t,
    JSON.stringify(
      configOf([upstream], { store: { sqlite: file, durability: 'process' }, limits: { drain_timeout: '700ms' } })
    )
  )
  const open = Promise.withResolvers<void>()
  upstream.gate = open.promise
  const started = Array.from({ length: 40 }, (_, i): ReturnType<typeof ask> => {
    const stays = i % 2 === 0 ? {} : { stopAt: 3 }
    return ask(running.url, { id: `d${i}`, units, words: 6, gap: 5, ...stays }, { stream: true })
  })
  await eventually(() => upstream.count === 40)
  open.resolve()
  await eventually(async () => journal(file).length >= 20)
  await running.gateway.close({ drain: true })
  const seen = await Promise.all(started)
  const { ends, twice } = endings(journal(file))
  t.same(twice, [])
  t.equal(ends.size, 40)
  for (const [i, { id, ended, code }] of seen.entries()) {
    const end = ends.get(id!)!
    t.equal(end.amount, nanoCost(end.usage!, prices['plain']!))
    if (i % 2 === 0)
      t.match({ ended, amount: end.amount, source: end.source }, { ended: true, amount: full, source: 'upstream' })
    else t.match({ ended, code, source: end.source }, { ended: false, code: 'draining', source: 'partial' })
  }
  t.same(verify(file), [])
})
