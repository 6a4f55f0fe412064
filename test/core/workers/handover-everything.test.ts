// Work in the background and sessions go on while gateways of one thread and of workers hand over to each other, and
// everything is charged once.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { Clients } from '../../chaos/cluster-clients.ts'
import { configOfEverything, judgeAll, lookAtAll, nothingShown } from '../../chaos/everything.ts'
import { spawnGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { applied, quiet } from '../../money/audit.ts'
import type { Part } from '../../money/lasting.ts'
import { PlannedUpstream } from '../../money/planned.ts'
import { chance, folder, journal, rows } from '../../money/rig.ts'

t.setTimeout(900_000)
const patience = 300_000

t.test('background work, tasks and sessions outlive hand-overs from 1 thread to 2, 2 and 1', async (t) => {
  const upstreams = [await PlannedUpstream.start(t, 'first'), await PlannedUpstream.start(t, 'second')]
  const home = folder(t)
  const file = join(home, 'sluice.db')
  const everything = await configOfEverything(t, upstreams)
  const text = (workers: number): string =>
    JSON.stringify({
      ...everything,
      store: { sqlite: file },
      limits: { drain_timeout: '300s' },
      workers
    })
  const running = await spawnGateway(t, text(1), { folder: home })
  const clients = new Clients(() => running.url, chance(20261128), 1)
  const failures = (): number => running.output().match(/could not take the place/g)?.length ?? 0
  const seen = (): readonly number[] => [
    clients.ended,
    clients.known.length,
    clients.tasks.length,
    clients.talks.reduce((all, { done }) => all + done.length, 0)
  ]
  for (const [at, workers] of [2, 2, 1].entries()) {
    const before = seen()
    await eventually(() => seen().every((count, kind) => count > before[kind]!), patience)
    writeFileSync(running.file, text(workers))
    // A busy machine may not start a process in its time: then the old one serves on, and is asked again.
    while (running.pids().length < at + 2) {
      const failed = failures()
      process.kill(running.pids().at(-1)!, 'SIGUSR2')
      await eventually(() => running.pids().length === at + 2 || failures() > failed, patience)
    }
  }
  const before = seen()
  await eventually(() => seen().every((count, kind) => count > before[kind]!), patience)
  await clients.end()
  const shown = nothingShown()
  await eventually(() => lookAtAll(running.url, clients, shown), patience)
  await eventually(async () => {
    await applied(running)
    return rows(file, 'SELECT id FROM work WHERE open = 1').length === 0
  }, patience)
  await quiet(t, running)
  process.kill(running.pids().at(-1)!, 'SIGTERM')
  await running.ended
  t.same(rows(file, 'SELECT request_id, part FROM reservation'), [], 'nothing is held')
  t.same(rows(file, 'SELECT scope, pending FROM balance WHERE pending <> 0'), [], 'nor pending')
  const entries = (journal(file) as Part[]).filter((entry) => entry.class === 'terminal')
  const { counts, wrong, doubled } = judgeAll(clients, entries, shown, upstreams)
  t.comment(JSON.stringify(counts))
  t.same(wrong.slice(0, 3), [])
  t.same(doubled.slice(0, 3), [])
  t.same(verify(file), [])
  const statuses = [...clients.codes.keys()].filter((code) => !/^(?:200|4\d\d|502)/.test(code))
  t.same(statuses, [], 'nobody was refused')
  const lost = [...shown.responses.values()].filter((response) => response?.status === 'failed')
  t.same(lost, [], 'no response failed')
  const otherwise = clients.tasks.filter(
    ({ id, ending }) => shown.tasks.get(id) !== (ending === 'succeeds' ? 'succeeded' : 'failed')
  )
  t.same(otherwise.slice(0, 3), [], 'every task ended as its upstream had it end')
})
