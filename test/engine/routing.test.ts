// What plugins say of the channels that may be chosen and of the model that is used.
import t from 'tap'
import { definePlugin, GatewayError } from '../../core/contract/contract.ts'
import type { Hooks, Plugin } from '../../core/contract/contract.ts'
import { caller } from '../../core/contract/slots.ts'
import { readEvents } from '../kit/sse.ts'
import { Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, defaultChain, key, Workbench } from '../kit/workbench.ts'

const prices = { price: { input: 1, output: 2 } }

function plugin(name: string, hooks: Hooks): Plugin {
  return definePlugin({ name, summary: 'For a test.', options: {}, setup: () => hooks })
}

function chainWith(names: readonly string[], above: string): readonly unknown[] {
  return defaultChain.flatMap((entry): unknown[] => (above in entry ? [...names, entry] : [entry]))
}

t.test(
  'any number of plugins leave out channels and put them in order, whatever their priorities and weights',
  async (t) => {
    const names = ['a', 'b', 'c', 'd']
    const upstreams = await Promise.all(names.map(() => Upstream.start(t)))
    let first: Hooks['onCandidates'] = () => {}
    let second: Hooks['onCandidates'] = () => {}
    const more = [
      plugin('first', { onCandidates: (...args) => first!(...args) }),
      plugin('second', { onCandidates: (...args) => second!(...args) })
    ]
    const channels = Object.fromEntries(
      names.map((name, at) => [
        name,
        channelTo(upstreams[at]!, { priority: at < 2 ? 0 : 1, weight: name === 'b' ? 1000 : 1 })
      ])
    )
    const bench = await Workbench.open(t, { channels, chain: chainWith(['first', 'second'], 'route') }, { more })
    for (const upstream of upstreams)
      upstream.always(({ write }) => write('HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n'))
    const tried = async (): Promise<string> =>
      (await bench.send()).exchange.attempts.map(({ channel }) => channel.name).join('')
    const order =
      (wanted: string): Hooks['onCandidates'] =>
      (_exchange, candidates) =>
        candidates.prefer(({ name }) => wanted.indexOf(name))

    first = order('dcab')
    t.equal(await tried(), 'dca', 'in the order that was said')
    second = (_exchange, candidates) => candidates.keep(({ name }) => name !== 'c')
    t.equal(await tried(), 'dab', 'without those left out')
    second = async (_exchange, candidates) => {
      await Promise.resolve()
      candidates.prefer(({ name }) => (name === 'b' ? 0 : 1))
    }
    t.equal(await tried(), 'bdc', 'the plugin further down says last; what it does not order keeps its order')
    first = (_exchange, candidates) => candidates.prefer(() => 0)
    second = (_exchange, candidates) =>
      void t.strictSame(
        candidates.channels.map(({ name }) => name),
        names
      )
    t.match(await tried(), /^(ab|ba)[cd]$/, 'whoever prefers none changes nothing: priorities hold')
    second = (_exchange, candidates) => candidates.keep(() => false)
    const nothing = await bench.send()
    t.match([nothing.status, JSON.parse(nothing.body).error.code], [503, 'no_available_channel'])
    second = () => {
      throw new GatewayError('content_blocked', 'Not here.')
    }
    t.equal((await bench.send()).status, 403)
    second = () => {
      throw new TypeError('a mistake')
    }
    t.equal((await bench.send()).status, 500)
    t.ok(bench.log.some(({ fields }) => String(fields['error']).includes('in the plugin second')))
  }
)

t.test('channels of one rank share the requests by weight', async (t) => {
  const [a, b] = [await Upstream.start(t), await Upstream.start(t)]
  const more = [plugin('router', { onCandidates: (_exchange, candidates) => candidates.prefer(() => 1) })]
  const channels = { a: channelTo(a, { priority: 0 }), b: channelTo(b, { priority: 1 }) }
  const bench = await Workbench.open(t, { channels, chain: chainWith(['router'], 'route') }, { more })
  for (let i = 0; i < 20; i++) {
    a.json(chatAnswer())
    await bench.send()
  }
  t.match([a.requests.length, b.requests.length], [20, 0], 'equal scores leave the priorities')
})

t.test(
  'a model is renamed before the key is asked about it; the client sees what it asked for, and the record both',
  async (t) => {
    const upstream = await Upstream.start(t)
    const seen: unknown[] = []
    const renames = (from: string, to: string | undefined): Hooks => ({
      onModel(exchange, model) {
        seen.push([exchange.find(caller)?.tenant, model, exchange.requestedModel, exchange.streaming])
        return model === from ? to : undefined
      }
    })
    const more = [plugin('upper', renames('demo', 'other')), plugin('lower', renames('other', 'third'))]
    const models = {
      demo: prices,
      other: prices,
      third: { ...prices, deprecated: { since: '2026-01-01' } },
      secret: prices
    }
    const channels = {
      a: channelTo(upstream, { models: { demo: 'demo-up', other: 'other-up', third: 'third-up', secret: 'secret' } })
    }
    const keys = [key({ models: ['demo', 'third'] })]
    const chain = ['upper', 'lower', ...defaultChain]
    const bench = await Workbench.open(t, { channels, models, keys, chain }, { more })
    for (const stream of [false, true]) {
      seen.length = 0
      if (stream) upstream.sse(chatEvents())
      else upstream.json(chatAnswer())
      const answer = await bench.send({ body: { stream } })
      t.strictSame(seen, [
        ['acme', 'demo', 'demo', stream],
        ['acme', 'other', 'demo', stream]
      ])
      t.equal(upstream.requests.at(-1)!.json().model, 'third-up')
      const [first] = stream
        ? readEvents(answer.body).map(({ data }) => JSON.parse(data === '[DONE]' ? '{}' : data))
        : [JSON.parse(answer.body)]
      t.equal(first.model, 'demo')
      t.ok('deprecation' in answer.headers, 'what is said of the model is said of the one that is used')
      t.match(bench.records.at(-1), { model: 'third', requested_model: 'demo', status: 200 })
    }
    await bench.reload({ channels, models, keys, chain: [...defaultChain, 'lower', 'upper'] })
    const below = await bench.send()
    t.match(
      [below.status, bench.records.at(-1)!.model],
      [404, 'other'],
      'in the order of the chain, wherever that is; and the key may not use what came of it'
    )
    await bench.reload({ channels, models, keys, chain: defaultChain })
    upstream.json(chatAnswer())
    await bench.send()
    t.match(bench.records.at(-1), { model: 'demo', requested_model: null })
    const wrong = plugin('wrong', { onModel: () => '' })
    const other = await Workbench.open(t, { channels, models, chain: ['wrong', ...defaultChain] }, { more: [wrong] })
    t.equal((await other.send()).status, 500)
    t.ok(other.log.some(({ fields }) => String(fields['error']).includes('in the plugin wrong')))
  }
)
