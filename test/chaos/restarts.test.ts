// Hand-overs from process to process: nobody notices one that succeeds, nor one that fails.
import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { delta, done, finish, opening, sse, usage } from '../faults/vendor.ts'
import { ask } from '../kit/client.ts'
import type { Client } from '../kit/client.ts'
import { sluice } from '../kit/command.ts'
import { spawnGateway } from '../kit/gateway.ts'
import type { SpawnedGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { endOfBody, events, until, Upstream } from '../kit/upstream.ts'
import { restarts } from './restarts.ts'

t.setTimeout(600_000)
const patience = 60_000

for (const [name, options] of [
  ['clear text', { handOvers: 2, rate: 40 }],
  ['TLS', { handOvers: 1, rate: 20, tls: true }]
] as const)
  t.test(`under load no client notices a hand-over, and the books are exact: ${name}`, async (t) => {
    const { refused, reset, cut, lost, doubled, unasked, due, charged, verified, noticed, answered, handOvers } =
      await restarts(options)
    t.ok(answered > 0)
    t.equal(handOvers, options.handOvers)
    const nothing = { refused: 0, reset: 0, cut: 0, lost: 0, doubled: 0, unasked: 0, noticed: [], verified: true }
    t.strictSame({ refused, reset, cut, lost, doubled, unasked, noticed, verified }, nothing)
    t.equal(charged, due)
  })

t.test('when the next process cannot start, the old one serves on and says why', async (t) => {
  const running = await spawnGateway(t)
  const upgrade = { method: 'POST', path: '/admin/v1/upgrade' }
  const good = readFileSync(running.file, 'utf8')
  for (const [bad, reason] of [
    [good.replace('chain:', 'chian:'), /Did you mean|chian/],
    [good.replace('port: 0', 'port: 65000'), /listen was changed/],
    [good.replace('sluice.db', 'other.db'), /the place of the store was changed/]
  ] as const) {
    writeFileSync(running.file, bad)
    const reply = await ask(t, running.adminUrl, upgrade)
    t.match([reply.status, reply.json()], [409, { error: { code: 'upgrade_refused', message: reason } }])
    t.equal((await running.chat()).status, 200)
  }
  t.match(running.output(), /"the next process could not take the place of this one, which serves on"/)
  t.strictSame(running.pids(), [running.process.pid])
})

t.test('an upgrade by the admin API answers when the next process serves, and the old one ends', async (t) => {
  const running = await spawnGateway(t)
  const reply = await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/upgrade' })
  t.match([reply.status, reply.json()], [200, { ok: true, generation: 2 }])
  t.strictSame(await running.exited, { code: 0, signal: null })
  t.equal((await running.chat()).status, 200)
  t.match((await ask(t, running.adminUrl, { path: '/metrics' })).text, /sluice_process_generation 2/)
  const { data } = await running.admin('/admin/v1/audit?action=gateway.upgrade')
  t.match(data, [{ action: 'gateway.upgrade', after: { ok: true, generation: 2 } }])
})

/** A gateway, and a client that has begun to see an answer; `goOn` lets it end. */
async function streaming(t: Test): Promise<{ running: SpawnedGateway; client: Client; goOn: () => void }> {
  const vendor = await Upstream.start(t)
  const { promise, resolve: goOn } = Promise.withResolvers<void>()
  const rest = events([delta(' far'), finish, usage, done])
  vendor.script(sse, events([opening, delta('So')]), until(promise), rest, endOfBody())
  const running = await spawnGateway(t, {}, { upstreams: { vendor } })
  const client = await running.openChat({ stream: true })
  await client.body('So')
  return { running, client, goOn }
}

t.test('when the next process dies later, the old one settles what it still has', async (t) => {
  const { running, client, goOn } = await streaming(t)
  running.process.kill('SIGUSR2')
  await eventually(() => running.pids().length === 2, patience)
  process.kill(running.pids()[1]!, 'SIGKILL')
  goOn()
  t.match((await client.reply()).text, /\[DONE\]/)
  // An idle connection would be kept until the end of the drain.
  client.socket.end()
  const ended = { code: 1, signal: null }
  t.strictSame(await running.exited, ended, 'nobody serves any more, and whoever watches the gateway hears of it')
  t.match(running.output(), /this one takes the store back/)
  const file = running.file.replace('gateway.yaml', 'sluice.db')
  const verified = await sluice(['ledger', 'verify', '--db', file])
  t.equal(verified.code, 0, verified.out)
  const exported = await sluice(['ledger', 'export', '--db', file])
  t.match(exported.out, /"kind":"settle".*"source":"upstream"/)
})

t.test('when the old process is killed, the next one ends its requests as after a crash', async (t) => {
  const { running } = await streaming(t)
  running.process.kill('SIGUSR2')
  await eventually(() => running.pids().length === 2, patience)
  running.process.kill('SIGKILL')
  await eventually(async () => (await running.admin('/admin/v1/requests')).data.length === 1, patience)
  const { data } = await running.admin('/admin/v1/requests')
  t.match(data, [{ outcome: 'failed', usage_source: 'recovered' }])
  const { data: balances } = await running.admin('/admin/v1/balances')
  t.ok(balances.every(({ pending_nano }: { pending_nano: string }) => pending_nano === '0'))
})
