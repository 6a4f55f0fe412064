// A new operator's first day, by the command line and the admin API alone: a key with a budget, its refusal when it is
// spent, the reason, a raise at run time, and accounts that agree.
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { sluice } from '../kit/command.ts'
import type { Ended } from '../kit/command.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

/** A chat completion with a key. */
function chat(t: Test, { url }: LocalGateway, key: string): Promise<ReceivedReply> {
  const body = { model: 'demo', max_tokens: 50, messages: [{ role: 'user', content: 'Tell me of the sea.' }] }
  return ask(t, url, { path: '/v1/chat/completions', headers: { authorization: `Bearer ${key}` }, body })
}

t.test('a key is made, spends its budget, is refused, explained and raised, and the accounts agree', async (t) => {
  const local = await gateway(t, {
    models: { demo: { price: { input: 1000, output: 2000 } } },
    tenants: { acme: { projects: { web: {} } } }
  })
  local.configure({
    admin: { port: Number(new URL(local.adminUrl).port) },
    models: { demo: { price: { input: 1000, output: 2000 } } },
    tenants: { acme: { projects: { web: {} } } }
  })
  const run = async (...args: string[]): Promise<Ended> => {
    const ended = await sluice([...args, '--config', local.file])
    if (ended.code !== 0) throw new Error(`sluice ${args.join(' ')}: ${ended.err}`)
    return ended
  }
  const made = await run(
    'keys',
    'create',
    '--tenant',
    'acme',
    '--project',
    'web',
    '--name',
    'ci',
    '--budget',
    '1/month'
  )
  const key = made.out.trim()

  let refused: ReceivedReply | undefined
  let served = 0
  while (!refused) {
    const reply = await chat(t, local, key)
    if (reply.status === 200) served++
    else refused = reply
    if (served > 100) throw new Error('the budget does not end')
  }
  t.ok(served > 0, `${served} requests were served`)
  t.match({ status: refused.status, ...refused.json().error }, { status: 429, code: 'quota_key_exceeded' })

  const why = await run('explain', '--request', refused.headers['x-request-id']!)
  t.match(why.out, /key:ci|key ci/, 'it names the key')
  t.match(why.out, /1 USD/, 'and its budget')
  const ahead = await run('explain', '--key', 'ci', '--model', 'demo', '--json')
  t.match(JSON.parse(ahead.out), { outcome: /./ })
  const found = await local.admin('/admin/v1/requests?key=ci&status=429')
  t.match(found.data, [{ reason: { scope: 'key:ci' } }])

  await run('keys', 'change', 'ci', '--budget', '100/month')
  t.equal((await chat(t, local, key)).status, 200, 'it counts from the next request on')
  served++

  await eventually(
    async () => (await local.admin('/admin/v1/requests?key=ci&outcome=completed')).data.length === served
  )
  const records = (await local.admin('/admin/v1/requests?key=ci&limit=1000')).data
  const charged = records.reduce((sum: bigint, { cost_nano }: { cost_nano: string }) => sum + BigInt(cost_nano), 0n)
  const balances = (await local.admin('/admin/v1/balances?scope=key:ci')).data
  for (const { window, posted_nano: posted, pending_nano: pending } of balances)
    t.same([posted, pending], [String(charged), '0'], window)
  const spend = JSON.parse((await run('spend', '--by', 'key', '--format', 'json')).out)
  const [ofKey] = spend.data.filter((row: { key: string }) => row.key === 'ci')
  t.equal(ofKey.charge_nano, String(charged), 'spend says what the ledger says')
  t.equal(ofKey.requests, served)
  const verified = await run('ledger', 'verify', '--db', join(local.file, '..', 'sluice.db'), '--json')
  t.match(JSON.parse(verified.out), { ok: true })
  const audited = (await local.admin('/admin/v1/audit?object_kind=key&object=ci')).data
  t.match(
    audited.map(({ entry, ...rest }: any) => (entry ?? rest).action),
    ['key.change', 'key.create']
  )
})
