// Spend as an operator asks for it: the admin API and `sluice spend` of a running gateway, and the files it writes.
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { LedgerFile } from '../../core/store/embedded/care/ledger-file.ts'
import { sluice } from '../kit/command.ts'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

t.setTimeout(600_000)

const secrets = { laptop: 'sk-test-laptop-0000000000', desk: 'sk-test-desk-000000000000' }
const hostile = '@evil"model'

/** A gateway whose first channel costs half, whose second says nothing of cost, and whose keys have odd tags. */
async function open(t: Test): Promise<{ running: LocalGateway; first: Upstream; second: Upstream; send: Send }> {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const channel = (upstream: Upstream, more: object): object => ({
    protocol: 'openai',
    base_url: upstream.url.href,
    private: true,
    ...more
  })
  const running = await gateway(t, {
    channels: {
      first: channel(first, { models: { cheap: 'cheap', [hostile]: 'x' }, cost: { of: 'price', factor: '0.5' } }),
      second: channel(second, { models: { cheap: 'cheap' }, priority: 1 })
    },
    models: { cheap: { price: { input: 1, output: 2.000000001 } }, [hostile]: { price: { input: 3, output: 0 } } },
    tenants: { acme: { projects: { web: {} } } },
    keys: [
      { name: 'laptop', key: secrets.laptop, tenant: 'acme', project: 'web', tags: { team: '=1+1', site: '+7' } },
      { name: 'desk', key: secrets.desk, tenant: 'acme', tags: { team: '-sum(A1)' } }
    ]
  })
  const send: Send = async (key, model, upstream, tokens) => {
    upstream.json(chatAnswer(...tokens))
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] })
    const headers = { authorization: `Bearer ${secrets[key]}`, 'content-type': 'application/json' }
    const reply = await ask(t, running.url, { method: 'POST', path: '/v1/chat/completions', headers, body })
    t.equal(reply.status, 200, reply.text)
  }
  return { running, first, second, send }
}

type Send = (
  key: keyof typeof secrets,
  model: string,
  upstream: Upstream,
  tokens: readonly [input: number, output: number]
) => Promise<void>

async function serve(t: Test): Promise<LocalGateway> {
  const { running, first, second, send } = await open(t)
  await send('laptop', 'cheap', first, [1000, 500])
  await send('laptop', hostile, first, [7, 5])
  await send('desk', 'cheap', first, [3, 1])
  // The first channel fails, and the second one answers.
  first.json({ error: { message: 'no' } }, { status: 500 })
  await send('desk', 'cheap', second, [11, 13])
  return running
}

const read = (text: string): any => JSON.parse(text)

t.test('the admin API adds up what was charged, page by page, and refuses what it does not understand', async (t) => {
  const running = await serve(t)
  const ledger = new LedgerFile(running.gateway.config.settings.store.sqlite!)
  const { data } = await running.admin('/admin/v1/spend?by=key,model,channel')
  const entries = [...ledger.entries()]
  ledger.close()
  const due = entries.reduce((sum, { kind, amount }) => (kind === 'cost' ? sum : sum + amount), 0n)
  t.equal(
    data.reduce((sum: bigint, row: any) => sum + BigInt(row.charge_nano), 0n),
    due
  )
  const cheap = 1000n * 1000n + 500n * 2000n
  t.match(data, [
    {
      key: 'desk',
      model: 'cheap',
      channel: 'first',
      requests: 1,
      charge_nano: String(3000 + 2000),
      uncosted_nano: '0'
    },
    {
      key: 'desk',
      model: 'cheap',
      channel: 'second',
      requests: 1,
      cost_nano: null,
      margin_nano: null,
      charge_nano: String(11_000 + 26_000),
      uncosted_nano: String(11_000 + 26_000),
      usage: { input: 11, output: 13 }
    },
    { key: 'laptop', model: hostile, charge_nano: '21000', cost_nano: '10500', margin_nano: '10500' },
    { key: 'laptop', model: 'cheap', charge_nano: String(cheap), cost_nano: String(cheap / 2n), margin_usd: '0.001' }
  ])
  const {
    data: [all]
  } = await running.admin('/admin/v1/spend')
  t.equal(BigInt(all.charge_nano), due)
  t.equal(BigInt(all.cost_nano) + BigInt(all.margin_nano) + BigInt(all.uncosted_nano), due, 'nothing is left over')
  t.equal(all.requests, 4)
  const teams = await running.admin('/admin/v1/spend?by=tag:team&limit=1')
  t.match(teams.data, [{ 'tag:team': '-sum(A1)', requests: 2 }])
  t.match(await running.admin(`/admin/v1/spend?by=tag:team&limit=1&cursor=${teams.next}`), {
    data: [{ 'tag:team': '=1+1' }],
    next: null
  })
  t.match((await running.admin('/admin/v1/spend?by=tag,project&tag=site:%2B7')).data, [
    { tag: { team: '=1+1', site: '+7' }, project: 'web', requests: 2 }
  ])
  t.same((await running.admin('/admin/v1/spend?by=key&until=2020-01-01')).data, [])
  const month = new Date().toISOString().slice(0, 7)
  t.match((await running.admin('/admin/v1/spend?by=month&since=2020-01-15')).data, [{ month, requests: 4 }])

  const wrong = {
    'by=modle': /^by has "modle", did you mean "model"\?: it is a list of tenant, /,
    'by=key,key': /^by has "key" twice/,
    'by=tag:a%22b': /^by has "tag:a/,
    'tag=team': /^tag is "team": it must be the name of a tag and its value, like team:search/,
    'since=2026-11-01T12:00:00Z': /^since is .*: it must be a day in UTC/,
    'by=key&cursor=x': /^cursor is "x": it must be the next of an earlier page/,
    'by=day&cursor=WyJ4Il0': /^cursor is /,
    'limit=0': /^limit is /,
    'colour=red': /^unknown parameter "colour"/
  }
  for (const [query, message] of Object.entries(wrong)) {
    const { status, text } = await ask(t, running.adminUrl, { path: `/admin/v1/spend?${query}` })
    t.equal(status, 400, query)
    t.match(read(text).error, { code: 'invalid_field', message }, query)
  }
})

t.test('the command shows the same as a table, CSV, JSON and FOCUS, and no cell becomes a formula', async (t) => {
  const running = await serve(t)
  const db = running.gateway.config.settings.store.sqlite!
  const { data } = await running.admin('/admin/v1/spend?by=key,tag:team,model')
  const spend = async (...words: string[]): Promise<string> => {
    const { code, out, err } = await sluice(['spend', '--db', db, ...words])
    t.equal(code, 0, err)
    return out
  }
  const by = ['--by', 'key,tag:team,model']
  t.same(read(await spend(...by, '--json')), { data })
  t.same((await spend(...by, '--format', 'jsonl')).trim().split('\n').map(read), data)
  const table = await spend('--by', 'key')
  t.match(table, /^KEY +REQUESTS +CHARGE +COST +MARGIN +UNCOSTED +FAILED +INPUT +CACHED +OUTPUT\n/)
  t.match(table, /^laptop +2 +0\.002021\d* /m)
  t.match(table, /^TOTAL +4 /m)
  const csv = (await spend(...by, '--format', 'csv')).split('\r\n')
  t.match(csv[0], /^key,tag:team,model,requests,charge_usd,charge_nano,.*,input,cached_input,.*,reasoning$/)
  t.match(csv[1], /^desk,'-sum\(A1\),cheap,2,/)
  t.match(csv[2], /^laptop,'=1\+1,"'@evil""model",1,0\.000021,21000,/)
  t.notMatch(csv.join('\n'), /(^|,)"?[=+@]/m)

  const out = join(dirname(db), 'focus.csv')
  await spend('--format', 'focus', '--out', out)
  const [head, ...rows] = readFileSync(out, 'utf8').trimEnd().split('\r\n').map(cells)
  const parts = rows.map((row) => Object.fromEntries(head!.map((name, index) => [name, row[index]!])))
  const total = parts.reduce((sum, { BilledCost }) => sum + nano(BilledCost!), 0n)
  t.equal(String(total), (await running.admin('/admin/v1/spend')).data[0].charge_nano)
  t.equal(
    parts.reduce((sum, row) => sum + Number(row['x_RequestCount']), 0),
    4
  )
  const today = new Date().toISOString().slice(0, 10)
  t.match(
    parts.find((row) => row['x_Key'] === 'laptop' && row['SkuMeter'] === 'output' && row['ResourceId'] === 'cheap'),
    {
      BilledCost: /^0\.001/,
      ChargePeriodStart: `${today}T00:00:00Z`,
      ConsumedQuantity: '500',
      ConsumedUnit: 'Tokens',
      ListUnitPrice: '0.000002000000001',
      SubAccountId: 'acme',
      ServiceProviderName: 'Sluice',
      Tags: '{"site":"+7","team":"=1+1"}'
    }
  )
  t.match(read(readFileSync(`${out}.metadata.json`, 'utf8')), { Schema: { FocusVersion: '1.2' } })
  t.match(await sluice(['spend', '--db', db, '--format', 'focus', '--out', out]), { code: 1, err: /EEXIST/ })

  const wrong = {
    '--by=hour': /sluice spend: --by has "hour"/,
    '--since=yesterday': /--since is "yesterday": it must be a day in UTC/,
    '--format=xml': /--format is "xml": it must be table, csv, json, jsonl, focus/
  }
  for (const [word, err] of Object.entries(wrong)) t.match(await sluice(['spend', '--db', db, word]), { code: 2, err })
  t.match(await sluice(['spend', '--db', db, '--format', 'focus', '--by', 'key']), { code: 2 })
  t.match(await sluice(['help', 'spend']), { code: 0, out: /--by GROUPS/ })
})

/** The cells of a line of CSV, without the quotes. */
function cells(line: string): string[] {
  return [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)]
    .slice(0, -1)
    .map(([, cell]) => (cell!.startsWith('"') ? cell!.slice(1, -1).replaceAll('""', '"') : cell!))
}

function nano(dollars: string): bigint {
  const [whole, fraction = ''] = dollars.split('.')
  return BigInt(whole! + fraction.padEnd(9, '0'))
}
