// Exports: the request log and spend as files, for who may see them, and safe to open.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Writable } from 'node:stream'
import t from 'tap'
import type { Test } from 'tap'
import { csvLine } from '../../../core/admin/exports/csv.ts'
import { ReaderPace } from '../../../core/admin/exports/reader-pace.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { Store } from '../../../core/store/store.ts'
import { ask, connect } from '../../kit/client.ts'
import type { ReceivedReply } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { record } from '../store/embedded/sample.ts'

const owner = 'the token of the owner'

type Admin = (path: string, token?: string, body?: unknown) => Promise<ReceivedReply>

/** Asks the admin API of a gateway, with a body by POST. */
function adminOf(t: Test, { adminUrl }: LocalGateway): Admin {
  return (path, token = owner, body) =>
    ask(t, adminUrl, {
      ...(body !== undefined && { method: 'POST', body }),
      path: `/admin/v1${path}`,
      headers: { authorization: `Bearer ${token}` }
    })
}

/** A store that a test fills before its gateway takes the file. */
async function filled(t: Test): Promise<{ sqlite: string; store: Store }> {
  const sqlite = join(mkdtempSync(join(tmpdir(), 'sluice-export-')), 'sluice.db')
  t.teardown(() => rmSync(dirname(sqlite), { recursive: true, force: true }))
  return { sqlite, store: await openStore({ file: sqlite, durability: 'process' }) }
}

/** A gateway on which two tenants have made requests, one with a model name that is a formula. */
async function used(t: Test): Promise<Admin> {
  const local: LocalGateway = await gateway(t, {
    admin: { token: owner },
    tenants: { acme: {}, zeta: {} },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      { name: 'other', key: 'sk-other-00000000000000000000', tenant: 'zeta' }
    ]
  })
  const admin = adminOf(t, local)
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
  for (const text of ['﹦1', '﹢1', '﹣1', '﹫a', '−1+1']) t.match(csvLine([text]), /^'/, JSON.stringify(text))
  const unseen = [
    ' =1',
    '\ufeff=1',
    '\u200b＝1',
    '\u00a0@a',
    '\u202e=1',
    '\u2066\u061c@a',
    '\u0001=1',
    '\u3164+1',
    '\ufe0f=1'
  ]
  for (const text of unseen) t.match(csvLine([text]), /^'/, JSON.stringify(text))
  // Spreadsheets of many countries tell cells apart by semicolons, and take what is pasted apart by tabs.
  for (const text of ['a;=1', 'a;"=1', 'a; +1', 'a\t@a', 'a\n-1+1', 'a\r\n=1', 'a|＝1', `a;'"=1`])
    t.match(csvLine(['b', text]), /a[;\t\r\n|]+["' ]*'[=+@＝-]/, JSON.stringify(text))
  t.equal(csvLine(['a-b;c', 'x; y=1', '{"a":-1}']), 'a-b;c,x; y=1,"{""a"":-1}"\r\n', 'what is no formula stays')
  t.equal(csvLine(['-12.5', -3, 'a"b', null, { a: 1 }]), '-12.5,-3,"a""b",,"{""a"":1}"\r\n')
  t.end()
})

t.test('who reads a file too slowly is given up, by a stop, in drops and in the long run', async (t) => {
  const never = new AbortController().signal
  // The timers of the gateway keep no process alive.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  /** A reader that takes a piece each time it is told to. */
  const slow = (): { to: Writable; take: () => void } => {
    let done: (() => void) | undefined
    const to = new Writable({ highWaterMark: 1, decodeStrings: false, write: (_piece, _, next) => void (done = next) })
    return { to, take: () => done!() }
  }
  const usual = { bytes: 1000, ms: 600_000, longestMs: 600_000 }
  const stopped = new ReaderPace(slow().to, { ...usual, ms: 20 })
  await t.rejects(stopped.write('a', never)!, /less than 1000 bytes in 20 ms/)

  const dripping = slow()
  const pace = new ReaderPace(dripping.to, { ...usual, ms: 100 })
  const drops = async (): Promise<void> => {
    for (;;) {
      const taken = pace.write('a', never)
      setTimeout(dripping.take, 5)
      await taken
    }
  }
  await t.rejects(drops(), /less than 1000 bytes in 100 ms/)

  const enough = slow()
  const steady = new ReaderPace(enough.to, usual)
  for (let n = 0; n < 3; n++) {
    const taken = steady.write('a'.repeat(1000), never)
    enough.take()
    await taken
  }
  const long = new ReaderPace(slow().to, { ...usual, longestMs: 20 })
  await t.rejects(long.write('a', never)!, /longer than 20 ms/)
  t.throws(() => long.write('a', never), /longer than 20 ms/)
  const left = new AbortController()
  const waiting = new ReaderPace(slow().to, usual).write('a', left.signal)!
  left.abort('gone')
  await t.rejects(waiting, { name: 'AbortError' })
})

t.test('the audit log is a file of all entries, also for actors of one tenant', async (t) => {
  const { sqlite, store } = await filled(t)
  // More than are read of the store at a time.
  const entry = { actor: 'root', actor_kind: 'operator', action: 'key.create', object_kind: 'key', address: '10.0.0.1' }
  await Promise.all(
    Array.from({ length: 600 }, (_, place) =>
      store.documents.change([], { ...entry, object: `k${place}`, tenant: place % 2 === 0 ? 'acme' : 'zeta' })
    )
  )
  await store.close()
  const local = await gateway(t, { store: { sqlite }, admin: { token: owner } })
  const admin = adminOf(t, local)
  const { token } = (await admin('/operators', owner, { name: 'v', role: 'viewer', tenant: 'acme' })).json()
  const file = await admin('/export/audit?format=jsonl&action=key.create')
  t.match(file.headers['content-disposition'], /sluice-audit-.*\.jsonl"/)
  const entries = file.text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.equal(entries.length, 600)
  t.same(
    entries.map(({ seq }) => seq),
    entries.map(({ seq }) => seq).toSorted((one, other) => other - one),
    'the newest first'
  )
  t.same(entries.slice(0, 5), (await admin('/audit?action=key.create&limit=5')).json().data, 'as they are listed')
  const csv = (await admin('/export/audit?action=key.create')).text.trim().split('\r\n')
  t.equal(csv.length, 601)
  t.match(csv[0], /^seq,time,action,.*,hash$/)
  const own = await admin('/export/audit?format=jsonl&action=key.create', token)
  t.equal(own.text.trim().split('\n').length, 300)
  t.notMatch(own.text, /zeta|"seq"|"hash"|"address"/)
  t.match((await admin('/export/audit', token)).text, /^time,action,.*,times\r\n/, 'nor columns of what is hidden')
  t.match((await admin('/export/audit?tenant=zeta', token)).json(), { error: { code: 'role_not_allowed' } })
})

t.test('a file that is cut by a stop is no whole one, whatever its reader speaks', async (t) => {
  const { sqlite, store } = await filled(t)
  // More than the buffers of both sides take, so that a reader who waits holds the file up.
  const client_request_id = 'x'.repeat(4000)
  for (let place = 0; place < 6000; place++) store.requests.append(record({ client_request_id }))
  await store.close()
  for (const version of ['1.1', '1.0']) {
    const local = await gateway(t, { store: { sqlite }, admin: { token: owner } })
    const client = await connect(t, local.adminUrl)
    const { host } = new URL(local.adminUrl)
    client.write(
      `GET /admin/v1/export/requests HTTP/${version}\r\nhost: ${host}\r\nauthorization: Bearer ${owner}\r\n\r\n`
    )
    await client.body(100_000)
    client.stopReading()
    await local.gateway.close()
    client.resume()
    t.equal(await client.closed, 'reset', `HTTP/${version}: the connection is broken`)
    // A body that ends with its connection has no other sign of it.
    if (version === '1.1') t.notOk(client.replies[0]?.complete, 'and the body misses its end')
  }
})
