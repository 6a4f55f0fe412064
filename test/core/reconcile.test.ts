// `sluice ledger reconcile` with what OpenAI and Anthropic say of a day: every kind of difference, and nothing else.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Price } from '../../core/money/price.ts'
import { costOf } from '../../core/money/price.ts'
import type { Usage } from '../../core/money/usage.ts'
import type { UsageSource } from '../../core/store/ledger.ts'
import { openStore } from '../../core/store/embedded/store.ts'
import { sluice, sluiceEach } from '../kit/command.ts'
import { price, record, reserve, scope } from './store/embedded/sample.ts'

t.setTimeout(600_000)

const folder = t.testdir()
const db = join(folder, 'sluice.db')
const day = 86_400_000
const first = Date.UTC(2026, 10, 18)
const [one, two, three] = [0, 1, 2].map((days) => new Date(first + days * day).toISOString().slice(0, 10)) as [
  string,
  string,
  string
]
/** 1.25 dollars a million input tokens, 0.125 cached, 1 and 1.6 to write, and 10 for output; a cent a search. */
const own: Price = {
  version: 'own:1',
  perMillion: {
    input: 1_250_000_000n,
    cached_input: 125_000_000n,
    cache_write: 1_000_000_000n,
    cache_write_long: 1_600_000_000n,
    output: 10_000_000_000n,
    web_search: 10n ** 13n
  }
}
const usage = (more: Partial<Usage>): Usage => ({
  input: 0,
  cached_input: 0,
  cache_write: 0,
  output: 0,
  reasoning: 0,
  ...more
})

t.before(async () => {
  const store = await openStore({ file: db, durability: 'process', now: () => first + 3 * day })
  const serve = async (
    model: string,
    channel: string,
    days: number,
    used: Partial<Usage>,
    { source = 'upstream', costed = true }: { source?: UsageSource; costed?: boolean } = {}
  ): Promise<void> => {
    const time = first + days * day + 3_600_000
    const costs = new Map([[channel, own]])
    const reservation = reserve(store.ledger, [scope('key', 'laptop')], 9n, { model, time, ...(costed && { costs }) })
    const amount = costOf(usage(used), price)
    const settled = reservation.settle({ usage: usage(used), amount, source, channel })
    const { requestId } = reservation
    store.requests.append(record({ request_id: requestId, time: new Date(time).toISOString(), cost_nano: `${amount}` }))
    await settled
  }
  await serve('gpt-5', 'openai', 0, { input: 1000, cached_input: 200, output: 301 })
  await serve('gpt-5', 'openai', 0, { input: 7, output: 3 })
  await serve('gpt-5', 'openai', 1, { input: 50, output: 60 }, { source: 'estimated' })
  await serve('gpt-5', 'openai', 1, { input: 5 })
  await serve('lost', 'openai', 1, { input: 1 })
  await serve('gpt-5', 'openai', 2, { input: 99 })
  await serve('claude', 'anthropic', 0, {
    input: 10,
    cached_input: 20,
    cache_write: 30,
    cache_write_long: 40,
    output: 50,
    web_search: 2
  })
  await serve('dark', 'dark', 0, { input: 10 }, { costed: false })
  await store.close()
})

const openaiBucket = (date: string, results: object[]): object => ({
  object: 'bucket',
  start_time: Date.parse(date) / 1000,
  end_time: (Date.parse(date) + day) / 1000,
  results
})
const tokens = (model: string, input: number, cached: number, output: number): object => ({
  object: 'organization.usage.completions.result',
  model,
  input_tokens: input + cached,
  input_cached_tokens: cached,
  output_tokens: output,
  num_model_requests: 1
})
const cost = (line_item: string | null, value: string): object => ({
  object: 'organization.costs.result',
  amount: { value: `@${value}@`, currency: 'usd' },
  line_item,
  project_id: null
})
/** A page, with amounts as the numbers that they are on the wire. */
const page = (...data: object[]): string =>
  JSON.stringify({ object: 'page', data, has_more: false, next_page: null }).replaceAll(/"@(.*?)@"/g, '$1')

let files = 0
const file = (text: string): string => {
  const path = join(folder, `bill-${files++}`)
  writeFileSync(path, text)
  return path
}
const reconcile = (text: string, ...words: string[]): string[] => [
  'ledger',
  'reconcile',
  file(text),
  '--db',
  db,
  ...words
]
const openai = ['--channel', 'openai', '--json']

const snapshot = 'gpt-5-2026-08-01'
const usageOfOne = openaiBucket(one, [tokens(snapshot, 1007, 200, 304)])
const costsOfOne = openaiBucket(one, [
  cost(`${snapshot}, input`, '0.00125875'),
  cost(`${snapshot}, cached input`, '2.5e-05'),
  cost(`${snapshot}, output`, '0.0030400000000000002')
])
const late = openaiBucket(three, [])

t.test(
  'what agrees is said to agree, over several pages of usage and costs, and without verdict on the last day',
  async (t) => {
    const pages = [page(usageOfOne), page(costsOfOne), page(late)]
    const [whole, lines, listed] = await sluiceEach([
      reconcile(pages.join('\n'), ...openai, '--until', two),
      reconcile(pages.join(''), ...openai, '--until', two),
      reconcile(`[${pages.join(',')}]`, ...openai, '--until', two)
    ])
    for (const { code, out, err } of [whole!, lines!, listed!]) {
      t.equal(code, 0, out + err)
      t.same(JSON.parse(out), {
        ok: true,
        provider: 'openai',
        from: one,
        to: one,
        outside: 0,
        equal: 6,
        uncosted: 0,
        differences: [],
        pending: []
      })
    }
    const { code, out } = await sluice(reconcile(page(usageOfOne, openaiBucket(two, [])), '--channel', 'openai'))
    t.equal(code, 0, 'entries of the last day are not missed yet')
    t.match(out, /No verdict on the last day/)
    t.match(
      out,
      new RegExp(`^${two} +gpt-5 +input +only ours +55 +- +units +of ours: 50 units in 1 entry estimated`, 'm')
    )
    t.match(out, /^openai, 2026-11-18 to 2026-11-19: 0 differences, 3 equal, 3 on the last day$/m)
  }
)

t.test('every kind of difference is listed, and exits with 3', async (t) => {
  const bill = page(
    openaiBucket('2026-11-17', [tokens('gpt-5', 1, 0, 0)]),
    openaiBucket(one, [tokens(snapshot, 1007, 200, 300), tokens('o9', 5, 0, 0)]),
    openaiBucket(one, [cost(`${snapshot}, input`, '0.00126'), cost('o9, input', '1')]),
    openaiBucket(two, [tokens('gpt-5', 30, 0, 60)]),
    late
  )
  const { code, out } = await sluice(reconcile(bill, ...openai, '--since', one))
  t.equal(code, 3)
  const { differences, pending, outside, ok } = JSON.parse(out)
  t.notOk(ok)
  t.equal(outside, 1)
  const reason = 'of ours: 50 units in 1 entry estimated'
  t.same(
    differences.map(({ day: date, model, class: name, kind, ours, theirs, unit, reason: why }: any) =>
      [date, model, name, kind, ours, theirs, unit, why].join(' ')
    ),
    [
      `${one} gpt-5 cached_input only ours 0.000025  usd `,
      `${one} gpt-5 input price 0.00125875 0.00126 usd `,
      `${one} gpt-5 output quantity 304 300 units `,
      `${one} o9 input only theirs  5 units `,
      `${two} gpt-5 input quantity 55 30 units ${reason}`,
      `${two} gpt-5 output only ours 0.0006  usd of ours: 60 units in 1 entry estimated`,
      `${two} lost input only ours 1  units `
    ]
  )
  t.match(pending, [{ day: three, model: 'gpt-5', class: 'input', kind: 'only ours', ours: '99' }])
})

t.test('costs without line items are compared by day, and those of unknown cost are not', async (t) => {
  const sums = page(openaiBucket(one, [cost(null, '0.00432375')]), openaiBucket(two, [cost(null, '0.5')]), late)
  const [whole, dark] = await sluiceEach([
    reconcile(sums, ...openai),
    reconcile(page(openaiBucket(one, [cost(null, '3')]), late), '--channel', 'dark', '--json')
  ])
  t.match(JSON.parse(whole!.out).differences, [{ day: two, model: '*', class: '*', kind: 'price', theirs: '0.5' }])
  t.equal(JSON.parse(whole!.out).equal, 1)
  t.match(JSON.parse(dark!.out), { ok: true, uncosted: 1, equal: 0 })
})

const anthropicBucket = (date: string, results: object[]): object => ({
  starting_at: `${date}T00:00:00Z`,
  ending_at: new Date(Date.parse(date) + day).toISOString(),
  results
})
const anthropicPage = (...data: object[]): string => JSON.stringify({ data, has_more: false, next_page: null })
const claude = 'claude-20260801'
const cents = (token_type: string, amount: string): object => ({
  amount,
  currency: 'USD',
  cost_type: 'tokens',
  token_type,
  model: claude
})

t.test("Anthropic's pages: amounts are decimal strings in cents, and searches name no model", async (t) => {
  const used = {
    uncached_input_tokens: 10,
    cache_read_input_tokens: 20,
    cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 40 },
    output_tokens: 50,
    server_tool_use: { web_search_requests: 2 },
    model: claude
  }
  const search = { amount: '2', currency: 'USD', cost_type: 'web_search', token_type: null, model: null }
  const costs = [
    cents('uncached_input_tokens', '0.00125'),
    cents('cache_read_input_tokens', '0.00025'),
    cents('cache_creation.ephemeral_5m_input_tokens', '0.003'),
    cents('cache_creation.ephemeral_1h_input_tokens', '0.0064'),
    cents('output_tokens', '0.05'),
    search
  ]
  const bill = (output: string): string =>
    anthropicPage(anthropicBucket(one, [used])) +
    anthropicPage(anthropicBucket(one, [...costs.slice(0, 4), cents('output_tokens', output), search])) +
    anthropicPage(anthropicBucket(two, []))
  const [right, wrong] = await sluiceEach([
    reconcile(bill('0.05'), '--channel', 'anthropic', '--json'),
    reconcile(bill('5'), '--channel', 'anthropic', '--json')
  ])
  t.match(JSON.parse(right!.out), { ok: true, provider: 'anthropic', equal: 12, differences: [] })
  t.match(JSON.parse(wrong!.out).differences, [
    { model: 'claude', class: 'output', kind: 'price', ours: '0.0005', theirs: '0.05', unit: 'usd' }
  ])
})

t.test('CSV exports of both are read', async (t) => {
  const spent =
    'start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,quantity,quantity_unit,line_item,project_name\r\n' +
    [
      ['0.00125875', `${snapshot}, input`],
      ['0.000025', `${snapshot}, cached input`],
      ['0.00304', `${snapshot}, output`]
    ]
      .map(([value, item]) => `${first / 1000},${first / 1000 + 86400},x,y,${value},usd,,,"${item}","a ""b"", c"\r\n`)
      .join('') +
    `${first / 1000 + 2 * 86400},,,,,,,,,\r\n`
  const used =
    'usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,web_search_count\n' +
    `${one},${claude},k,Default,standard,≤ 200k,10,30,40,20,51,2\n${two},${claude},k,Default,standard,≤ 200k,0,0,0,0,0,0\n`
  const [money, units] = await sluiceEach([
    reconcile(spent, ...openai, '--until', two),
    reconcile(used, '--channel', 'anthropic', '--json')
  ])
  t.match(JSON.parse(money!.out), { ok: true, equal: 3 })
  t.match(JSON.parse(units!.out), {
    provider: 'anthropic',
    equal: 5,
    differences: [{ class: 'output', ours: '50', theirs: '51' }]
  })
})

t.test('the channels of the configuration and their names for models are used, and mistakes are named', async (t) => {
  const config = join(folder, 'gateway.yaml')
  const channel = (protocol: string, models: object): object => ({
    protocol,
    base_url: 'https://example.com/v1',
    models
  })
  writeFileSync(
    config,
    JSON.stringify({
      store: { sqlite: db },
      channels: {
        openai: channel('openai', { 'gpt-5': 'deployed' }),
        anthropic: channel('anthropic', { claude: 'claude' })
      },
      models: { 'gpt-5': { price: 'free' }, claude: { price: 'free' } },
      chain: ['auth']
    })
  )
  const bill = file(page(openaiBucket(one, [tokens('deployed', 1007, 200, 304)]), late))
  const words = ['ledger', 'reconcile', bill, '--config', config]
  const [found, unknown, provider, empty, cut, other, mixed, coin] = await sluiceEach([
    [...words, '--json', '--until', two],
    [...words, '--channel', 'nobody'],
    [...words, '--provider', 'google'],
    reconcile(''),
    reconcile('{"data":['),
    reconcile(page(usageOfOne), '--provider', 'anthropic'),
    reconcile('a,b\n1,2\n'),
    reconcile(page(openaiBucket(one, [{ amount: { value: 1, currency: 'eur' } }])))
  ])
  t.match(JSON.parse(found!.out), { ok: true, equal: 3 })
  t.match(unknown, { code: 2, err: /--channel is "nobody": known are openai, anthropic/ })
  t.match(provider, { code: 2, err: /--provider is "google": it must be openai or anthropic/ })
  t.match(empty, { code: 1, err: /the file is empty/ })
  t.match(cut, { code: 1, err: /ends in the middle of a page/ })
  t.match(other, { code: 1, err: /the form of openai, and --provider says anthropic/ })
  t.match(mixed, { code: 1, err: /no export that is known: its columns are a, b/ })
  t.match(coin, { code: 1, err: /an amount is in EUR/ })
})
