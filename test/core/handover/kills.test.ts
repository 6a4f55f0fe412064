// Processes that are killed in the middle of a hand-over, and what else comes then: nothing is lost or charged twice,
// and one process serves at the end, or none and it is said why.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ask } from '../../kit/client.ts'
import { sluice } from '../../kit/command.ts'
import { spawnGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { child, ends, inOrder, patience, stoppedAt } from './scene.ts'

t.setTimeout(600_000)
t.jobs = 2

t.test('the new one is killed while it loads: the old one serves on, and the next try succeeds', async (t) => {
  const scene = await stoppedAt(t, 'waits while it loads')
  const { running, client, goOn, release } = scene
  process.kill(await child(t, scene), 'SIGKILL')
  await eventually(() => running.output().includes('could not take the place of this one, which serves on'), patience)
  t.match(running.output(), /"reason":"it ended with SIGKILL/)
  release()
  // Two at once: one is done, and the other is refused.
  const upgrade = { method: 'POST', path: '/admin/v1/upgrade' }
  const replies = await Promise.all([upgrade, upgrade].map((one) => ask(t, running.adminUrl, one)))
  t.same(replies.map(({ status }) => status).sort(), [200, 409])
  const refused = replies.find(({ status }) => status === 409)!
  t.match(refused.json().error.message, /under way already|has taken the place/)
  goOn()
  t.match((await client.reply()).text, /\[DONE\]/)
  client.socket.end()
  t.same(await running.exited, { code: 0, signal: null })
  await ends(running, running.pids().at(-1)!)
  await inOrder(t, scene, 1)
})

t.test('the old one is killed while the new one loads: that ends and says why, and the next start mends', async (t) => {
  const scene = await stoppedAt(t, 'waits while it loads')
  const { running, release } = scene
  running.process.kill('SIGKILL')
  release()
  await running.ended
  t.match(running.output(), /the process whose place this one was to take is gone: start the gateway anew/)
  t.equal(running.pids().length, 1, 'no other has served')
  const again = await spawnGateway(t, scene.overrides)
  t.equal((await again.admin('/admin/v1/requests')).data.length, 1)
  t.match((await again.admin('/admin/v1/requests')).data, [{ usage_source: 'recovered' }])
  again.process.kill('SIGTERM')
  await again.exited
  await inOrder(t, scene, 1)
})

for (const when of ['at once', 'when that has seen it'] as const)
  t.test(
    `the old one is killed while the new one has the store, which goes on ${when}: that serves, and ends what was open`,
    async (t) => {
      const scene = await stoppedAt(t, 'waits with the store')
      const { running, release } = scene
      running.process.kill('SIGKILL')
      if (when === 'when that has seen it') {
        await running.exited
        // It has nothing else to do meanwhile.
        await sleep(300)
      }
      release()
      await eventually(() => running.pids().length === 2, patience)
      t.match(running.output(), /"generation":2/)
      await eventually(async () => (await running.admin('/admin/v1/requests')).data.length === 1, patience)
      t.match((await running.admin('/admin/v1/requests')).data, [{ usage_source: 'recovered' }])
      const { data } = await running.admin('/admin/v1/balances')
      t.ok(data.every(({ pending_nano }: { pending_nano: string }) => pending_nano === '0'))
      await ends(running, running.pids()[1]!)
      await inOrder(t, scene, 1)
    }
  )

for (const way of ['waits while it loads', 'waits with the store'] as const)
  t.test(`a reload, commands on the store and a second upgrade do no harm while the new one ${way}`, async (t) => {
    const scene = await stoppedAt(t, way)
    const { running, store, client, goOn, release } = scene
    running.configure({ ...scene.overrides, limits: { client_body: '77s' } })
    running.process.kill('SIGHUP')
    running.process.kill('SIGUSR2')
    const copy = `${store}.copy`
    t.match(await sluice(['ledger', 'backup', copy, '--db', store]), { code: 0 })
    for (const words of [
      ['ledger', 'repair', '--apply'],
      ['ledger', 'restore', copy]
    ]) {
      const { code, err } = await sluice([...words, '--db', store])
      t.not(code, 0, words.join(' '))
      t.match(err, /is in use|in use by/, words.join(' '))
    }
    goOn()
    release()
    await eventually(() => running.pids().length === 2, patience)
    t.match((await client.reply()).text, /\[DONE\]/)
    client.socket.end()
    t.same(await running.exited, { code: 0, signal: null })
    t.match(running.output(), /"an upgrade was refused"/, 'the second one')
    t.match(running.output(), /client_body/)
    await ends(running, running.pids()[1]!)
    await inOrder(t, scene, 1)
  })
