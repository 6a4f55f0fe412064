// All of a conversation goes to one channel and one credential while these are well, as upstreams keep prompts by
// account.
import fc from 'fast-check'
import t from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { tokenServer } from '../kit/token-server.ts'
import type { Answer, Asked } from '../kit/token-server.ts'
import { placeOf } from '../../plugins/route/affinity.ts'
import type { Place } from '../../plugins/route/affinity.ts'

const answer: Answer = {
  body: {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
  }
}
const models = { m: { price: { input: 1, output: 1 } } }
const names = Array.from({ length: 8 }, (_, index) => `sk-of-the-upstream-${index}`)
const carried = ({ headers }: Asked): string => String(headers.authorization).replace('Bearer ', '')

/** The credentials that requests with this body and these headers went out with, each asked for several times. */
async function wentBy(
  running: LocalGateway,
  asked: Asked[],
  body: object,
  headers: Record<string, string> = {}
): Promise<Set<string>> {
  const from = asked.length
  for (let n = 0; n < 6; n++) {
    const reply = await running.ask({
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${testKey}`, ...headers },
      body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...body }
    })
    if (reply.status !== 200) throw new Error(reply.text)
  }
  return new Set(asked.slice(from).map(carried))
}

t.test('a conversation that has a name stays with one of several credentials until that one rests', async (t) => {
  let resting = 'none'
  const upstream = await tokenServer(t, (one) =>
    carried(one) === resting ? { status: 429, headers: { 'retry-after': '2' }, body: { error: {} } } : answer
  )
  const up = {
    protocol: 'openai',
    base_url: `${upstream.url}/v1`,
    private: true,
    credentials: names,
    models: { m: 'm' }
  }
  const running = await gateway(t, { channels: { up }, models })
  const { asked } = upstream

  const talks = ['one', 'two', 'three', 'four', 'five', 'six']
  const homes: string[] = []
  for (const talk of talks) {
    const went = await wentBy(running, asked, { prompt_cache_key: talk })
    t.equal(went.size, 1, `all of the conversation ${talk} went to one`)
    homes.push(...went)
  }
  t.ok(new Set(homes).size > 1, 'not all conversations went to the same one')
  t.same(await wentBy(running, asked, {}, { 'x-sluice-affinity': 'one' }), new Set([homes[0]!]), 'by its header too')
  t.equal((await wentBy(running, asked, { metadata: { user_id: 'session_7' } })).size, 1)
  t.ok((await wentBy(running, asked, { user: 'the-same' })).size > 1, 'a user has many conversations')
  const many = new Set<string>()
  for (let n = 0; n < 5; n++) for (const one of await wentBy(running, asked, {})) many.add(one)
  t.ok(many.size > 3, 'without a name chance decides')

  resting = homes[0]!
  const meanwhile = await wentBy(running, asked, { prompt_cache_key: 'one' })
  meanwhile.delete(resting)
  t.equal(meanwhile.size, 1, 'while its own rests it stays with another one')
  t.same(await wentBy(running, asked, { prompt_cache_key: talks[1]! }), new Set([homes[1]!]), 'others do not move')
})

t.test('of channels of one rank it stays with one too, and the file can say that chance decides', async (t) => {
  const upstream = await tokenServer(t, () => answer)
  const channels = Object.fromEntries(
    names.map((credential, index) => [
      `up-${index}`,
      { protocol: 'openai', base_url: `${upstream.url}/v1`, private: true, credential, models: { m: 'm' } }
    ])
  )
  const running = await gateway(t, { channels, models })
  t.equal((await wentBy(running, upstream.asked, { prompt_cache_key: 'a talk' })).size, 1)
  const before = [{ auth: {} }, { quota: {} }, { ratelimit: {} }, { route: { affinity: false } }]
  const chain = [...before, { 'protocol-translate': {} }, { 'usage-meter': {} }, { log: { sink: 'none' } }]
  const without = await gateway(t, { channels, models, chain })
  const went = new Set<string>()
  for (let n = 0; n < 5; n++)
    for (const one of await wentBy(without, upstream.asked, { prompt_cache_key: 'a talk' })) went.add(one)
  t.ok(went.size > 3)
})

t.test('names of any kind and size are survived', async (t) => {
  const upstream = await tokenServer(t, () => answer)
  const up = {
    protocol: 'openai',
    base_url: `${upstream.url}/v1`,
    private: true,
    credentials: names,
    models: { m: 'm' }
  }
  const running = await gateway(t, { channels: { up }, models })
  const bodies: object[] = [
    { prompt_cache_key: '' },
    { prompt_cache_key: null },
    { prompt_cache_key: 7 },
    { prompt_cache_key: 'x'.repeat(100_000) },
    { prompt_cache_key: '\u0000"\\😀' },
    { metadata: null },
    { metadata: { user_id: { a: 1 } } },
    { metadata: { user_id: 'x'.repeat(100_000) } }
  ]
  for (const body of bodies)
    t.equal((await running.chat({ model: 'm', ...body })).status, 200, JSON.stringify(body).slice(0, 60))
})

const place = fc.record({ weight: fc.nat(5), left: fc.double({ min: 0, max: 1, noNaN: true }) })
const placesOf = (parts: readonly { weight: number; left: number }[]): Place[] =>
  parts.map((part, index) => ({ name: String(index), ...part }))

t.test('where one of the places is gone, no conversation of another one moves', (t) => {
  fc.assert(
    fc.property(fc.array(place, { minLength: 2, maxLength: 6 }), fc.string(), fc.nat(), (parts, talk, at) => {
      const places = placesOf(parts)
      const home = places[placeOf(talk, places)]!
      const gone = places[at % places.length]!
      const others = places.filter((one) => one !== gone)
      return home === gone || others[placeOf(talk, others)] === home
    })
  )
  t.end()
})

t.test('each place has as many conversations as its weight says, and fewer when little is left of it', (t) => {
  const talks = Array.from({ length: 4000 }, (_, index) => `talk ${index}`)
  const shares = (parts: readonly { weight: number; left: number }[]): number[] => {
    const places = placesOf(parts)
    const counts = places.map(() => 0)
    for (const talk of talks) counts[placeOf(talk, places)]!++
    return counts.map((count) => count / talks.length)
  }
  const near = (found: number[], wanted: number[]): boolean =>
    found.every((share, index) => Math.abs(share - wanted[index]!) < 0.04)
  t.ok(near(shares([1, 3].map((weight) => ({ weight, left: 1 }))), [0.25, 0.75]))
  t.ok(near(shares([0, 0].map((weight) => ({ weight, left: 1 }))), [0.5, 0.5]))
  t.same(
    shares([1, 1].map((weight) => ({ weight, left: 1 }))),
    shares([
      { weight: 1, left: 0.1 },
      { weight: 1, left: 1 }
    ]),
    'what is used up to nine tenths keeps its conversations'
  )
  t.ok(
    near(
      shares([
        { weight: 1, left: 0.05 },
        { weight: 1, left: 1 }
      ]),
      [1 / 3, 2 / 3]
    )
  )
  t.ok(
    near(
      shares([
        { weight: 0, left: 1 },
        { weight: 1, left: 0 },
        { weight: 3, left: 0 }
      ]),
      [0, 0.25, 0.75]
    ),
    'what is used up takes nobody to what has no weight'
  )
  const [spent] = shares([
    { weight: 1, left: 0 },
    { weight: 1, left: 1 }
  ])
  t.ok(spent! > 0 && spent! < 0.03, 'what is used up is asked now and then, so that its upstream can tell anew')
  t.end()
})
