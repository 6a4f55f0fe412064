// Hand-overs in a row: each process goes on with what it has, by way of all that came after it.
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { delta, done, finish, opening, sse, usage } from '../../faults/vendor.ts'
import { ask } from '../../kit/client.ts'
import type { Client } from '../../kit/client.ts'
import { sluice } from '../../kit/command.ts'
import { spawnGateway } from '../../kit/gateway.ts'
import type { SpawnedGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { endOfBody, events, until, Upstream } from '../../kit/upstream.ts'

t.setTimeout(600_000)
const patience = 60_000

/** A gateway that has handed over twice, and a client for each process that has seen the beginning of an answer. */
async function threeGenerations(t: Test): Promise<{ running: SpawnedGateway; clients: Client[]; goOn: () => void }> {
  const vendor = await Upstream.start(t)
  const { promise, resolve: goOn } = Promise.withResolvers<void>()
  const rest = events([delta(' far'), finish, usage, done])
  const running = await spawnGateway(t, { limits: { drain_timeout: '300s' } }, { upstreams: { vendor } })
  const clients: Client[] = []
  for (let generation = 1; generation <= 3; generation++) {
    vendor.script(sse, events([opening, delta('So')]), until(promise), rest, endOfBody())
    if (generation > 1) {
      const reply = await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/upgrade' })
      t.match([reply.status, reply.json()], [200, { ok: true, generation }])
    }
    const client = await running.openChat({ stream: true })
    await client.body('So')
    clients.push(client)
  }
  return { running, clients, goOn }
}

/** Whether a process is there. */
function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Ends the gateway, and holds that its book is in order. */
async function inOrder(t: Test, running: SpawnedGateway): Promise<void> {
  const last = running.pids().at(-1)!
  process.kill(last, 'SIGTERM')
  await eventually(() => !lives(last), patience)
  const verified = await sluice(['ledger', 'verify', '--db', join(running.file, '..', 'sluice.db')])
  t.equal(verified.code, 0, verified.out)
}

t.test('answers of three processes end in each of them, and are charged in the last', async (t) => {
  const { running, clients, goOn } = await threeGenerations(t)
  const pids = running.pids()
  t.equal(pids.length, 3)
  goOn()
  for (const client of clients) {
    const reply = await client.reply()
    t.match(reply.text, /\[DONE\]/)
    t.match(await running.record(reply), { outcome: 'completed', usage_source: 'upstream' })
    // An idle connection would be kept until the end of the drain.
    client.socket.end()
  }
  t.strictSame(await running.exited, { code: 0, signal: null })
  await eventually(() => !lives(pids[1]!), patience)
  t.ok(lives(pids[2]!))
  const { data } = await running.admin('/admin/v1/balances')
  t.ok(data.every(({ pending_nano }: { pending_nano: string }) => pending_nano === '0'))
  await inOrder(t, running)
})

t.test('when the one in the middle dies, the first can end nothing any more, and the last charges it', async (t) => {
  const { running, clients, goOn } = await threeGenerations(t)
  const [first, second, third] = clients as [Client, Client, Client]
  process.kill(running.pids()[1]!, 'SIGKILL')
  await eventually(() => running.output().includes('"the store could not be taken back'), patience)
  goOn()
  t.match((await first.reply()).text, /billing_unavailable/)
  t.equal((await second.reply()).complete, false)
  const whole = await third.reply()
  t.match(whole.text, /\[DONE\]/)
  t.match(await running.record(whole), { outcome: 'completed' })
  first.socket.end()
  t.strictSame(await running.exited, { code: 0, signal: null }, 'as the last one serves')
  await eventually(async () => (await running.admin('/admin/v1/requests')).data.length === 3, patience)
  const { data } = await running.admin('/admin/v1/requests')
  const sources = data.map(({ usage_source }: { usage_source: string }) => usage_source)
  t.strictSame(sources.sort(), ['recovered', 'recovered', 'upstream'])
  await inOrder(t, running)
})
