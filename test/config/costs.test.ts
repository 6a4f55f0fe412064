// What the file says of the upstreams' own prices, and of tags: read digit by digit, and every mistake with its place.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../config/load.ts'
import type { Config } from '../../core/catalogue/settings.ts'
import type { Price } from '../../core/money/price.ts'
import { Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, Workbench } from '../kit/workbench.ts'
import { plugins } from './plugins.ts'

const file = join(t.testdir(), 'gateway.yaml')
const models = { 'gpt-5': { price: { input: 2, output: 20 } }, own: { price: { input: 1, output: 1 } } }

function load(cost: unknown, more: object = {}): { config?: Config; messages: string[] } {
  const channels = {
    a: { protocol: 'simulator', models: { 'gpt-5': 'gpt-5', own: 'secret-name' }, cost },
    b: { protocol: 'simulator', models: { 'gpt-5': 'gpt-5' } }
  }
  writeFileSync(file, JSON.stringify({ channels, models, chain: ['auth'], ...more }))
  const { config, problems = [] } = loadConfig(file, {
    env: {},
    plugins,
    simulatorUrl: new URL('http://127.0.0.1:1/v1')
  })
  return { ...(config && { config }), messages: problems.map(({ message }) => message) }
}

/** The costs of channel `a`, in nano-dollars per million tokens. */
function costs(cost: unknown): Record<string, unknown> {
  const { config, messages } = load(cost)
  if (!config) throw new Error(messages.join('\n'))
  const rates = ({ perMillion: { input, output } }: Price): unknown[] => [input, output]
  return Object.fromEntries(
    [...config.models].map(([name, model]) => [name, model.costs?.get('a')?.map(({ price }) => rates(price))])
  )
}

t.test('a channel costs what its models do, the public price, a share of it, or what it says', (t) => {
  t.same(costs(undefined), { 'gpt-5': undefined, own: undefined })
  t.same(costs({ of: 'price' }), {
    'gpt-5': [[2_000_000_000n, 20_000_000_000n]],
    own: [[1_000_000_000n, 1_000_000_000n]]
  })
  t.same(costs({ of: 'price', factor: 0.85 })['gpt-5'], [[1_700_000_000n, 17_000_000_000n]])
  t.same(costs({ of: 'price', factor: '0.333333' })['own'], [[333_333_000n, 333_333_000n]])
  t.same(costs({ models: { 'gpt-5': { input: 1, output: 8 } } }), {
    'gpt-5': [[1_000_000_000n, 8_000_000_000n]],
    own: undefined
  })
  t.same(costs({ of: 'list', models: { own: 'free' } }), {
    'gpt-5': [[1_250_000_000n, 10_000_000_000n]],
    own: [[undefined, undefined]]
  })
  const dated = [
    { input: 1, output: 8 },
    { from: '2026-12-01', input: 0.5, output: 4 }
  ]
  t.equal((costs({ models: { own: dated } })['own'] as unknown[]).length, 2)
  t.end()
})

t.test('models of a pattern cost what the channel says of all, of the pattern, or what the public list knows', (t) => {
  const patterns = { 'v/*': { channel: 'a', price: { input: 2, output: 20 } } }
  const of = (cost: unknown, model: string): unknown => {
    const { config, messages } = load(cost, { models: { ...models, ...patterns } })
    if (!config) throw new Error(messages.join('\n'))
    return config.models
      .get(model)!
      .costs?.get('a')
      ?.map(({ price: { perMillion } }) => [perMillion.input, perMillion.output])
  }
  t.equal(of(undefined, 'v/new'), undefined)
  t.same(of({ of: 'price', factor: 0.5 }, 'v/new'), [[1_000_000_000n, 10_000_000_000n]])
  t.same(of({ of: 'list', models: { own: 'free' } }, 'v/gpt-5'), [[1_250_000_000n, 10_000_000_000n]])
  t.equal(of({ of: 'list', models: { own: 'free' } }, 'v/nobody-knows-it'), undefined, 'and is no mistake of the file')
  t.same(of({ of: 'price', models: { 'v/*': { input: 1, output: 8 } } }, 'v/new'), [[1_000_000_000n, 8_000_000_000n]])
  t.same(of({ models: { 'v/*': 'list' } }, 'v/gpt-5'), [[1_250_000_000n, 10_000_000_000n]])
  const says = (cost: unknown): string => load(cost, { models: { ...models, ...patterns } }).messages.join('\n')
  t.match(says({ models: { 'w/*': 'free' } }), /cost\.models\."w\/\*": is not served here, did you mean "v\/\*"/)
  t.match(says({ models: { 'v/*': { input: 1 } } }), /cost\.models\."v\/\*": "output" is missing/)
  t.end()
})

t.test('mistakes are named with their remedy', (t) => {
  const says = (cost: unknown): string => load(cost).messages.join('\n')
  t.match(says({ of: 'list' }), /channels\.a\.cost\.of: the price list has no "secret-name" and no "own"/)
  t.match(says({ factor: 0.9 }), /channels\.a\.cost\.factor: of what\? Say "of: list"/)
  t.match(says({ of: 'price', factor: 0.1234567 }), /factor: must be at most 100, with at most 6 decimals/)
  t.match(says({ of: 'price', factor: 101 }), /factor: must be at most 100/)
  t.match(says({ models: { gpt5: 'free' } }), /cost\.models\.gpt5: is not served here, did you mean "gpt-5"/)
  t.match(says({ models: { own: { input: 1 } } }), /cost\.models\.own: "output" is missing/)
  t.match(says('cheap'), /channels\.a\.cost/)
  const key = (tags: unknown): string =>
    load(undefined, { tenants: { acme: {} }, keys: [{ name: 'k', key: 'sk-1', tenant: 'acme', tags }] }).messages.join(
      '\n'
    )
  t.equal(key({ team: 'search', 'cost-centre': 'Größe 7 €' }), '')
  t.match(key({ 'a b': 'x' }), /keys\[0\]\.tags\."a b": the name must be letters/)
  t.match(key({ team: 'x'.repeat(65) }), /keys\[0\]\.tags\.team: must be 1 to 64 printable characters/)
  t.match(key({ team: 'a\nb' }), /keys\[0\]\.tags\.team: must be 1 to 64 printable characters/)
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`t${i}`, 'x']))
  t.match(key(many), /keys\[0\]\.tags: has more than 16 tags/)
  t.end()
})

t.test(
  'a request is held with what each channel charges for its service tier and date, and with the tags of its key',
  async (t) => {
    const upstream = await Upstream.start(t)
    const price = { input: 1, output: 2, service_tiers: { flex: { input: 0.5, output: 1 } } }
    const dated = [
      { input: 4, output: 4 },
      { from: '2026-01-01', input: 8, output: 8 },
      { from: '9999-01-01', input: 9, output: 9 }
    ]
    const bench = await Workbench.open(t, {
      channels: {
        a: channelTo(upstream, { cost: { of: 'price', factor: '0.5' } }),
        b: channelTo(upstream, { cost: { models: { demo: dated } } }),
        c: channelTo(upstream)
      },
      models: { demo: { price } },
      keys: [{ name: 'k', key: 'sk-test-key', tenant: 'acme', tags: { team: 'search', app: 'x' } }]
    })
    const held = async (more: object): Promise<object> => {
      upstream.json(chatAnswer())
      const body = { model: 'demo', messages: [{ role: 'user', content: 'Hi' }], ...more }
      const { status, body: answer, exchange } = await bench.send({ body })
      t.equal(status, 200, answer)
      t.ok(exchange)
      const { costs, scopes } = bench.ledger.rows.at(-1)!.request
      t.same(scopes.at(-1)!.tags, { team: 'search', app: 'x' })
      return Object.fromEntries([...costs!].map(([name, { perMillion }]) => [name, Number(perMillion.input) / 1e9]))
    }
    t.same(await held({}), { a: 0.5, b: 8 })
    t.same(await held({ service_tier: 'flex' }), { a: 0.25 }, 'what a channel says nothing of is not known')
  }
)
