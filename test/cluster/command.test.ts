// `npm run cluster`: a cluster on this machine that ends as a whole.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { balancedMissing } from '../kit/fleet.ts'
import { freePort } from '../kit/ports.ts'
import { eventually } from '../kit/probe.ts'

t.setTimeout(600_000)
const script = join(import.meta.dirname, '../../.tools/cluster/main.ts')

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

t.test('a cluster serves, starts again what is killed, and ends as a whole', { skip: balancedMissing }, async (t) => {
  const ports = ['--port', String(await freePort()), '--admin-port', String(await freePort())]
  // Where the user of the servers may write, too.
  const folder = `/var/tmp/sluice-cluster-${process.pid}`
  const cluster = spawn(process.execPath, [script, '--nodes', '2', '--folder', folder, ...ports], {
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(async () => {
    cluster.kill('SIGKILL')
    await rm(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
  })
  let said = ''
  cluster.stderr.on('data', (text: Buffer) => (said += text.toString()))
  const exited = once(cluster, 'exit')
  void exited.then(() => t.comment(said))
  const [line] = (await once(createInterface({ input: cluster.stdout }), 'line')) as [string]
  const { url, nodes, pids } = JSON.parse(line)
  t.equal(nodes.length, 2)
  t.same(Object.keys(pids).toSorted(), ['haproxy', 'node-1', 'node-2', 'postgres', 'redis', 'simulator'])
  const ask = async (): Promise<number> => {
    const reply = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk-demo-cluster-000000000000', 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'demo', messages: [{ role: 'user', content: 'Hi' }] })
    })
    await reply.arrayBuffer()
    return reply.status
  }
  await eventually(async () => (await ask()) === 200, 30_000)
  process.kill(pids['node-1'], 'SIGKILL')
  await eventually(() => /node-1 runs again/.test(said), 120_000)
  await eventually(async () => (await ask()) === 200, 30_000)

  cluster.kill('SIGINT')
  t.same(await exited, [0, null])
  t.same(
    Object.values(pids).filter((pid) => lives(pid as number)),
    []
  )
  t.ok(existsSync(join(folder, 'postgres/PG_VERSION')), 'data stay')
})

t.test('what cannot be understood is answered with what there is', async (t) => {
  const cluster = spawn(process.execPath, [script, '--nodes', 'many'], { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  cluster.stderr.on('data', (text: Buffer) => (said += text.toString()))
  t.same(await once(cluster, 'close'), [2, null])
  t.match(said, /--nodes is a whole number from 1 to 20, and not many\.[^]*--admin-port/)
})
