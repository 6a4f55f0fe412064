// The history of configurations, and one of them put back: by the admin API and by the commands.
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { ConfigHistory } from '../../../core/program/config-history.ts'
import { silentLog } from '../../../core/telling/log.ts'
import { ask } from '../../kit/client.ts'
import { sluice } from '../../kit/command.ts'
import { gateway, spawnGateway } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { freePort } from '../../kit/ports.ts'
import { mostHeld } from '../../kit/turns.ts'

const sha = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')
const rollback = (t: Test, { adminUrl }: LocalGateway, body: Record<string, unknown>) =>
  ask(t, adminUrl, { method: 'POST', path: '/admin/v1/config/rollback', body })
const tenants = (...names: string[]): Record<string, unknown> => ({
  tenants: { acme: {}, ...Object.fromEntries(names.map((name) => [name, {}])) }
})

t.test('what was in use is kept, put back, and said', async (t) => {
  const local = await gateway(t)
  const first = { hash: sha(local.file), text: readFileSync(local.file, 'utf8') }
  local.configure(tenants('fresh'))
  await local.gateway.reload('SIGHUP')
  const second = sha(local.file)
  const { data } = await local.admin('/admin/v1/config/history')
  t.match(data, [
    { hash: second, reason: 'SIGHUP', by: null, changes: ['tenant fresh is added'] },
    { hash: first.hash, reason: 'start', changes: [] }
  ])
  const past = await local.admin(`/admin/v1/config/history/${first.hash.slice(0, 12)}`)
  t.match(past, { hash: first.hash, config: { tenants: { acme: {} } } })
  t.notMatch(JSON.stringify(past), /sk-test/, 'without secrets')

  const done = await rollback(t, local, {})
  t.match(done.json(), {
    ok: true,
    reason: 'rollback',
    to: first.hash,
    changes: ['tenant fresh is removed']
  })
  t.equal(readFileSync(local.file, 'utf8'), first.text)
  const [file] = done.json().files
  t.match(file, { file: local.file, done: 'written' })
  t.equal(sha(file.aside), second, 'the present file is kept aside')
  t.equal((await local.admin('/admin/v1/config')).hash, first.hash)
  t.match((await local.admin('/admin/v1/audit')).data[0], { action: 'config.rollback', outcome: 'done' })
  const again = await rollback(t, local, { hash: second.slice(0, 8) })
  t.match(again.json(), { ok: true, to: second, changes: ['tenant fresh is added'] })

  const folder = join(dirname(local.file), 'sluice.db.config')
  t.equal(statSync(folder).mode & 0o777, 0o700)
  for (const name of readdirSync(folder)) t.equal(statSync(join(folder, name)).mode & 0o777, 0o600, name)
})

t.test('nothing is put back over an edit, and a file that cannot be used does not stay', async (t) => {
  const env: NodeJS.ProcessEnv = { ...process.env, NAMED: 'b' }
  const local = await gateway(t, {}, { env })
  const first = readFileSync(local.file, 'utf8')
  writeFileSync(local.file, `${first}\nx-note: "\${NAMED}"\n`)
  await local.gateway.reload('SIGHUP')
  const second = sha(local.file)
  writeFileSync(local.file, 'nonsense: 1\n')
  t.match(await rollback(t, local, {}), { status: 409, text: /sluice diff/ })
  t.equal(readFileSync(local.file, 'utf8'), 'nonsense: 1\n')
  t.match((await rollback(t, local, { force: true })).json(), { ok: true })
  t.equal(readFileSync(local.file, 'utf8'), first)
  t.match(await rollback(t, local, { hash: 'ffffffffffff' }), { status: 404 })
  t.match(await rollback(t, local, { hash: 'no' }), { status: 400 })

  delete env['NAMED']
  const refused = await rollback(t, local, { hash: second })
  t.match(refused, { status: 422, text: /NAMED is not set/ })
  t.equal(readFileSync(local.file, 'utf8'), first, 'the file in use is in its place again')
  t.match((await local.admin('/admin/v1/audit')).data[0], { action: 'config.rollback', outcome: 'refused' })
})

t.test('the commands list and put back, also when the file on disk has problems', async (t) => {
  const local = await spawnGateway(t, { ...tenants('a'), admin: { port: await freePort() } })
  const text = readFileSync(local.file, 'utf8')
  const hash = sha(local.file)
  const other = join(dirname(local.file), 'other.yaml')
  writeFileSync(other, text.replace(/^( *)a: \{\}/m, '$1b: {}'))
  t.match(await sluice(['diff', other, '--config', local.file]), {
    code: 0,
    out: 'tenant a is removed\ntenant b is added\n'
  })
  writeFileSync(local.file, `${text}\nnonsense: 1\n`)
  const options = ['--config', local.file]
  t.match(await sluice(['config', 'history', ...options]), {
    code: 0,
    out: new RegExp(`^HASH .*\n${hash.slice(0, 12)} .* start `)
  })
  t.match(await sluice(['diff', ...options]), { code: 2, out: /nonsense: unknown key/ })
  t.match(await sluice(['rollback', ...options]), { code: 1, err: /No earlier configuration/ })
  t.match(await sluice(['rollback', hash.slice(0, 12), ...options]), { code: 1, err: /is not the file in use/ })
  t.match(await sluice(['rollback', hash, '--force', ...options]), {
    code: 0,
    out: 'Nothing changes.\n',
    err: /again\.\nwritten: \S+gateway\.yaml; what was there is /
  })
  t.equal(readFileSync(local.file, 'utf8'), text)
})

t.test('files of the history that are damaged are left out', async (t) => {
  const local = await gateway(t)
  const first = sha(local.file)
  const folder = join(dirname(local.file), 'sluice.db.config')
  const [name] = readdirSync(folder) as [string]
  const whole = JSON.parse(readFileSync(join(folder, name), 'utf8'))
  local.configure(tenants('fresh'))
  await local.gateway.reload('SIGHUP')
  const damaged = [
    '',
    '{',
    '{}',
    'null',
    '[]',
    '5',
    '"x"',
    ...Object.keys(whole).flatMap((member) =>
      ['seq', 'by', 'included', 'folders'].includes(member) ? [] : [JSON.stringify({ ...whole, [member]: undefined })]
    ),
    ...['hash', 'time', 'changes', 'included', 'folders', 'text', 'redacted'].flatMap((member) =>
      [5e300, [5], 'x'.repeat(3)].flatMap((value) =>
        member === 'text' && typeof value === 'string' ? [] : [JSON.stringify({ ...whole, [member]: value })]
      )
    )
  ]
  for (const [index, text] of damaged.entries()) writeFileSync(join(folder, `${10_000_000 + index}.json`), text)
  const { data } = await local.admin('/admin/v1/config/history')
  t.same(
    data.map(({ hash }: { hash: string }) => hash),
    [sha(local.file), first]
  )
  t.match((await rollback(t, local, {})).json(), { ok: true, to: first })
})

t.test('a history that cannot be read keeps no gateway from its start', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'sluice.db.config'), 'no folder')
  const local = await gateway(t, { store: { sqlite: join(folder, 'sluice.db') } })
  t.same(await local.admin('/admin/v1/config/history'), { data: [], next: null })
  t.ok(local.lines.some(({ message }) => message === 'the configuration was not written to its history'))
})

t.test('a long history of large configurations is read without holding the event loop', async (t) => {
  const store = join(t.testdir({ 'sluice.db.config': {} }), 'sluice.db')
  const past = { hash: 'a'.repeat(64), time: 1, reason: 'start', by: null, changes: [], redacted: {}, text: '' }
  const text = JSON.stringify(Array.from({ length: 20_000 }, (_, index) => ({ name: `key-${index}`, tenant: 'acme' })))
  for (let seq = 1; seq <= 50; seq++)
    writeFileSync(join(`${store}.config`, `${String(seq).padStart(8, '0')}.json`), JSON.stringify({ ...past, text }))
  const history = new ConfigHistory(`${store}.config`, silentLog)
  let entries: object[] = []
  const held = await mostHeld(async () => (entries = await history.entries()))
  t.equal(entries.length, 50)
  t.match(entries[0], { seq: 50, hash: past.hash })
  t.notOk('text' in entries[0]!, 'their texts are not in memory together')
  t.ok(held < 50, `${held} ms`)
  t.match(await history.find(({ seq }) => seq === 7), { seq: 7, text })
})
