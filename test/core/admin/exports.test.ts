// Exports: the request log and spend as files, for who may see them, and safe to open.
import t from 'tap'
import type { Test } from 'tap'
import { csvLine } from '../../../core/admin/exports/csv.ts'
import { ask } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

const owner = 'the token of the owner'

/** A gateway on which two tenants have made requests, one with a model name that is a formula. */
async function used(t: Test): Promise<(path: string, token?: string, body?: unknown) => Promise<ReceivedReply>> {
  const local: LocalGateway = await gateway(t, {
    admin: { token: owner },
    tenants: { acme: {}, zeta: {} },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      { name: 'other', key: 'sk-other-00000000000000000000', tenant: 'zeta' }
    ]
  })
  const admin = (path: string, token = owner, body?: unknown): Promise<ReceivedReply> =>
    ask(t, local.adminUrl, {
      ...(body !== undefined && { method: 'POST', body }),
      path: `/admin/v1${path}`,
      headers: { authorization: `Bearer ${token}` }
    })
  for (let i = 0; i < 3; i++) await local.chat()
  await local.chat({ model: '=HYPERLINK("http://evil.test")' })
  await local.ask({
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { authorization: 'Bearer sk-other-00000000000000000000' },
    body: { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
  })
  await eventually(async () => (await admin('/requests')).json().data.length === 5)
  return admin
}

t.test('the request log is a file of the same records, as JSON lines and as CSV without a formula', async (t) => {
  const admin = await used(t)
  const listed = (await admin('/requests?tenant=acme')).json().data
  const lines = await admin('/export/requests?tenant=acme&format=jsonl')
  t.match(lines.headers, {
    'content-type': 'application/x-ndjson',
    'content-disposition': /^attachment; filename="sluice-requests-\d{4}-\d\d-\d\d\.jsonl"$/,
    'content-security-policy': /sandbox/
  })
  t.same(
    lines.text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
    listed
  )
  const csv = await admin('/export/requests')
  t.match(csv.headers['content-type'], 'text/csv; charset=utf-8')
  const [head = '', ...rows] = csv.text.trim().split('\r\n')
  t.match(head, /^time,request_id,tenant,.*,channel,.*,attempts,input,.*,reasoning$/)
  t.equal(rows.length, 5)
  t.ok(csv.text.includes(`,"'=HYPERLINK(""http://evil.test"")",`))
  t.equal((await admin('/export/requests?outcome=completed&key=test')).text.trim().split('\r\n').length, 4)
  const { data } = (await admin('/audit?action=requests.export')).json()
  t.equal(data.length, 3)
  t.match(data[0], { actor: 'admin.token', after: { outcome: 'completed', key: 'test' }, object: 'requests' })
})

t.test('spend is a file by any groups', async (t) => {
  const admin = await used(t)
  const listed = (await admin('/spend?by=tenant,model')).json().data
  const lines = (await admin('/export/spend?by=tenant,model&format=jsonl')).text.trim().split('\n')
  t.same(
    lines.map((line) => JSON.parse(line)),
    listed
  )
  const rows = (await admin('/export/spend?by=tenant,model')).text.trim().split('\r\n')
  t.match(rows[0], /^tenant,model,requests,charge_usd,charge_nano,cost_usd,.*,input,/)
  t.equal(rows.length, listed.length + 1)
  t.match((await admin('/export/spend?format=xls')).json(), { error: { param: 'format' } })
})

t.test('a file for actors of one tenant has nothing of another, nor of how the gateway is set up', async (t) => {
  const admin = await used(t)
  const { token } = (await admin('/operators', owner, { name: 'v', role: 'viewer', tenant: 'acme' })).json()
  for (const format of ['csv', 'jsonl']) {
    for (const path of [`/export/requests?format=${format}`, `/export/spend?by=tenant,key&format=${format}`]) {
      const { status, text } = await admin(path, token)
      t.equal(status, 200)
      t.match(text, /acme/)
      t.notMatch(text, /zeta|other|"channel|,channel|attempts|margin/, path)
    }
  }
  const foreign = await admin('/export/requests?tenant=zeta', token)
  t.match(foreign.json(), { error: { code: 'role_not_allowed' } })
  t.match((await admin('/export/spend?by=channel', token)).json(), { error: { code: 'role_not_allowed' } })
  const own = (await admin('/audit?action=requests.export', token)).json().data
  t.match(own, [{ actor: 'v', tenant: 'acme' }])
})

t.test('a cell is no formula, in whatever way spreadsheets read it', (t) => {
  for (const text of ['=1+1', '+1+1', '-1+1', '@SUM(1)', '\t=1', '\r=1', '\n=1', '\0=1', '＝1', '＋1', '－1', '＠a'])
    t.match(csvLine([text]), /^"?'/, JSON.stringify(text))
  t.equal(csvLine(['-12.5', -3, 'a"b', null, { a: 1 }]), '-12.5,-3,"a""b",,"{""a"":1}"\r\n')
  t.end()
})
