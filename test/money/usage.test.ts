// Odd reports of usage: each is charged what it says, or an estimate that is labelled, and nothing is free by accident.
import { join } from 'node:path'
import t from 'tap'
import { verify } from '../../core/store/embedded/care/verify/verify.ts'
import { gateway } from '../kit/gateway.ts'
import { nanoCost } from '../kit/oracle.ts'
import type { Units } from '../kit/oracle.ts'
import { settled } from '../kit/probe.ts'
import { absent, PlannedUpstream, wireUsage } from './planned.ts'
import type { Plan } from './planned.ts'
import { ask, configOf, endings, folder, journal, prices } from './rig.ts'

t.setTimeout(600_000)

const units: Units = { input: 1000, cached_input: 400, output: 70, reasoning: 30 }
const honest = wireUsage(units)
const detailed = (more: object): object => ({ ...honest, ...more })

/** What becomes of a report: units that are charged as reported, or an estimate. */
interface Case {
  usage?: unknown
  place?: NonNullable<Plan['place']>
  /** Default: {@link units}, as the upstream's own count. */
  is?: Units | 'estimated'
  words?: number
  /** A place that only streams, or only whole bodies, have. */
  only?: 'stream' | 'whole'
}

const cases: Readonly<Record<string, Case>> = {
  'as it should be': {},
  "in a vendor's own object": { place: 'x_groq' },
  'inside the choice': { place: 'choice' },
  'in every event, growing': {
    place: 'every event',
    usage: { prompt_tokens: 1400, completion_tokens: 70 },
    is: { input: 1400, output: 70 },
    only: 'stream'
  },
  'after the end marker': { place: 'after done', only: 'stream' },
  'followed by zeros': { place: 'zero follows', only: 'stream' },
  'behind a body too large to be held': { words: 60_000, only: 'whole' },
  'all zero, said explicitly': { usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, is: {} },
  'no output, said explicitly': {
    usage: { prompt_tokens: 9, completion_tokens: 0, total_tokens: 9 },
    is: { input: 9 }
  },
  'a completion that is only in the total': {
    usage: { prompt_tokens: 9, total_tokens: 13 },
    is: { input: 9, output: 4 }
  },
  'parts that are null': {
    usage: detailed({ prompt_tokens_details: null, completion_tokens_details: { reasoning_tokens: null } }),
    is: { input: 1400, output: 70 }
  },
  'the largest count that is one': {
    usage: { prompt_tokens: 2 ** 31 - 1, completion_tokens: 1 },
    is: { input: 2 ** 31 - 1, output: 1 }
  },
  absent: { usage: absent, is: 'estimated' },
  null: { usage: null, is: 'estimated' },
  'an empty object': { usage: {}, is: 'estimated' },
  'a list': { usage: [100, 20], is: 'estimated' },
  'a text': { usage: '100 tokens', is: 'estimated' },
  'a number': { usage: 120, is: 'estimated' },
  'nothing but a total': { usage: { total_tokens: 120 }, is: 'estimated' },
  'the prompt alone': { usage: { prompt_tokens: 100 }, is: 'estimated' },
  'the completion alone': { usage: { completion_tokens: 20 }, is: 'estimated' },
  negative: { usage: detailed({ completion_tokens: -70 }), is: 'estimated' },
  'negative in the prompt': { usage: detailed({ prompt_tokens: -1 }), is: 'estimated' },
  'a fraction': { usage: detailed({ completion_tokens: 70.5 }), is: 'estimated' },
  'counts as texts': { usage: { prompt_tokens: '1400', completion_tokens: '70' }, is: 'estimated' },
  'counts as booleans': { usage: { prompt_tokens: true, completion_tokens: true }, is: 'estimated' },
  'no safe integer': { usage: detailed({ prompt_tokens: 2 ** 53 + 1 }), is: 'estimated' },
  'the largest safe integer, which no budget survives': {
    usage: detailed({ prompt_tokens: Number.MAX_SAFE_INTEGER }),
    is: 'estimated'
  },
  infinite: { usage: detailed({ completion_tokens: 1e308 }), is: 'estimated' },
  'more cached than prompt': { usage: detailed({ prompt_tokens_details: { cached_tokens: 1401 } }), is: 'estimated' },
  'more reasoning than completion': {
    usage: detailed({ completion_tokens_details: { reasoning_tokens: 71 }, total_tokens: 1470 }),
    is: 'estimated'
  },
  'more audio than completion': {
    usage: detailed({ completion_tokens_details: { audio_tokens: 71 } }),
    is: 'estimated'
  },
  'a total below the prompt': { usage: { prompt_tokens: 100, total_tokens: 90 }, is: 'estimated' }
}

t.test('every report is charged what it says or what can be seen of the answer, and labelled', async (t) => {
  const upstream = await PlannedUpstream.start(t)
  const file = join(folder(t), 'sluice.db')
  const running = await gateway(
    t,
    JSON.stringify(configOf([upstream], { store: { sqlite: file, durability: 'process' } }))
  )
  const asked: { name: string; case: Case; id: string; model: string; plan: Plan; stream: boolean; bytes: number }[] =
    []
  for (const [name, one] of Object.entries(cases)) {
    for (const stream of [false, true]) {
      if (one.only && (one.only === 'stream') !== stream) continue
      // A price per call is due whatever is said of tokens.
      for (const model of ['cached', 'call']) {
        const plan: Plan = { id: `${name} ${stream} ${model}`, units, words: 40, ...one }
        const seen = await ask(running.url, plan, { model, stream })
        if (!seen.ended) t.fail(`${plan.id}: ${seen.status} ${seen.text.slice(0, 300)}`)
        asked.push({ name, case: one, id: seen.id!, model, plan, stream, bytes: JSON.stringify(plan).length })
      }
    }
  }
  await settled(t, running)
  await running.gateway.close()
  const { ends } = endings(journal(file))
  t.equal(ends.size, asked.length)
  for (const {
    name,
    case: { is = units },
    id,
    model,
    stream,
    bytes
  } of asked) {
    const title = `${name}, ${stream ? 'streamed' : 'whole'}, ${model}`
    const end = ends.get(id)!
    t.equal(end.kind, 'settle', title)
    const price = prices[model]!
    if (is !== 'estimated') {
      t.equal(end.amount, nanoCost({ ...inherit(is, model), request: 1 }, price), title)
      t.equal(end.source, 'upstream', title)
      continue
    }
    const usage = end.usage!
    t.equal(end.source, 'estimated', title)
    t.ok(
      Object.values(usage).every((count) => Number.isSafeInteger(count) && count >= 0),
      `${title}: ${JSON.stringify(usage)}`
    )
    t.equal(end.amount, nanoCost(usage, price), title)
    const believable = usage['output'] === 0 ? Math.ceil(bytes / 3) : Math.ceil(bytes / 4)
    t.equal(usage['input'], believable, `${title}: the prompt by its length`)
    // Forty words, of about six letters with their space.
    if (name !== 'the largest safe integer, which no budget survives')
      t.ok(usage['output']! >= 40 && usage['output']! <= 150, `${title}: ${usage['output']} tokens`)
    if (model === 'call') t.equal(usage['request'], 1, title)
  }
  t.same(verify(file), [])
})

/** The classes of the oracle have no prices to fall back on: what the model does not price apart is input. */
function inherit(is: Units, model: string): Units {
  if (prices[model]!['cached_input'] !== undefined) return is
  const { cached_input = 0, input = 0, ...rest } = is
  return { ...rest, input: input + cached_input }
}

t.test(
  'a model that is unknown is not served, and one that is free is charged nothing and counted all the same',
  async (t) => {
    const upstream = await PlannedUpstream.start(t)
    const file = join(folder(t), 'sluice.db')
    const config = configOf([upstream], { store: { sqlite: file, durability: 'process' } }) as {
      channels: any
      models: any
    }
    config.models['gift'] = { price: 'free' }
    config.channels['up'].models['gift'] = 'gift'
    const running = await gateway(t, JSON.stringify(config))
    t.match(await ask(running.url, { id: 'unknown', units, words: 1 }, { model: 'nobody' }), {
      status: 404,
      code: 'model_not_found'
    })
    t.match(await ask(running.url, { id: 'free', units, words: 1 }, { model: 'gift' }), { ended: true })
    await settled(t, running)
    await running.gateway.close()
    t.match(journal(file), [
      { kind: 'settle', amount: 0n, source: 'upstream', usage: { input: 1000, cached_input: 400, output: 70 } }
    ])
    t.equal(upstream.count, 1)
  }
)
