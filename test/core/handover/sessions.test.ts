// A process that has handed over is killed while it has a session open: the record of that says what all of its turns
// were charged, whoever had the store when they ended.
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { noUsage, sumOf } from '../../../core/money/usage.ts'
import { ask } from '../../kit/client.ts'
import { sluice } from '../../kit/command.ts'
import { spawnGateway } from '../../kit/gateway.ts'
import type { SpawnedGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { openRealtime } from '../../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../../kit/socket-upstream.ts'

t.setTimeout(600_000)
t.jobs = 2
const patience = 60_000

interface Scene {
  running: SpawnedGateway
  requestId: string
  /** A turn that ends. */
  turn: () => Promise<void>
  /** Begins a turn that does not end. A session without one is over when its process has handed over. */
  begin: () => Promise<void>
  upgrade: () => Promise<void>
}

async function session(t: Test): Promise<Scene> {
  const upstream = await socketUpstream(t)
  const running = await spawnGateway(
    t,
    { limits: { drain_timeout: '300s' }, ...sessionsAt(upstream) },
    { folder: t.testdir() }
  )
  const client = await openRealtime(t, running)
  const { socket } = await upstream.peer()
  let [begun, ended] = [0, 0]
  const begin = async (): Promise<string> => {
    const asked = once(socket!, 'message')
    client.send({ type: 'response.create', response: { conversation: 'none' } })
    await asked
    const id = `response-${++begun}`
    socket!.send(JSON.stringify({ type: 'response.created', response: { id, status: 'in_progress' } }))
    socket!.send(JSON.stringify({ type: 'response.output_text.delta', response_id: id, delta: 'Good day to you' }))
    await client.event('response.output_text.delta', begun)
    return id
  }
  return {
    running,
    requestId: client.headers['x-request-id'] as string,
    begin: () => begin().then(() => {}),
    async turn() {
      const id = await begin()
      const usage = { input_tokens: 30 + begun, output_tokens: 5 * begun }
      socket!.send(JSON.stringify({ type: 'response.done', response: { id, status: 'completed', usage } }))
      await client.event('response.done', ++ended)
    },
    async upgrade() {
      const { status } = await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/upgrade' })
      t.equal(status, 200)
    }
  }
}

/** Holds that the record of the session says what the journal says, with this number of turns, and that all is well. */
async function inOrder(t: Test, { running, requestId }: Scene, turns: number): Promise<void> {
  const of = `/admin/v1/requests?request_id=${requestId}`
  await eventually(async () => (await running.admin(of)).data.length === 1, patience)
  const { data } = await running.admin(of)
  const balances = (await running.admin('/admin/v1/balances')).data
  t.ok(balances.every(({ pending_nano }: { pending_nano: string }) => pending_nano === '0'))
  process.kill(running.pids().at(-1)!, 'SIGTERM')
  await running.ended
  const store = join(running.file, '..', 'sluice.db')
  const verified = await sluice(['ledger', 'verify', '--db', store])
  t.equal(verified.code, 0, verified.out)
  const { out } = await sluice(['ledger', 'export', '--db', store])
  t.notMatch(running.output(), /TypeError|"level":"error"/)
  const entries = out.split('\n').flatMap((line) => (line.includes(requestId) ? [JSON.parse(line)] : []))
  const charged = entries.filter(({ kind }) => kind === 'settle')
  t.equal(charged.length, turns, 'each turn is charged once')
  t.match(data[0], {
    recovered: true,
    usage_source: 'recovered',
    cost_nano: String(charged.reduce((sum, { amount_nano: amount }) => sum + BigInt(amount), 0n)),
    usage: charged.map(({ usage }) => usage).reduce(sumOf, noUsage)
  })
}

t.test('the record has the turns that were charged before the hand-over, after it, and by estimate', async (t) => {
  const scene = await session(t)
  const { running, turn, upgrade, begin } = scene
  await turn()
  await turn()
  await begin()
  await upgrade()
  await turn()
  await begin()
  running.process.kill('SIGKILL')
  await inOrder(t, scene, 5)
})

t.test('of a process that has handed over to one which has handed over, too', async (t) => {
  const scene = await session(t)
  const { running, turn, upgrade, begin } = scene
  await turn()
  await begin()
  await upgrade()
  await turn()
  await upgrade()
  await turn()
  await begin()
  running.process.kill('SIGKILL')
  await inOrder(t, scene, 5)
})
