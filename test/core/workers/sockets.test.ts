// Whoever waits for a worker that ends is answered by another one, and sockets that are passed serve all workers.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { Sockets } from '../../../core/workers/sockets.ts'
import { ask } from '../../kit/client.ts'
import { gateway, gatewayFile, testKey } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { folder } from '../../money/rig.ts'

t.setTimeout(600_000)

const models = { path: '/v1/models', headers: { authorization: `Bearer ${testKey}` } }

t.test('each socket is accepted on by its worker, or by another one while that does not serve', (t) => {
  const closed: number[] = []
  const socket = (fd: number): { fd: number; close(): void } => ({ fd, close: () => void closed.push(fd) })
  const own = new Sockets(3)
  t.ok(own.lacks(1))
  t.same([...own.substitutes([2])], [[2, []]], 'nobody has a socket that is not there')
  for (const place of [1, 2, 3]) own.keep(place, socket(10 + place))
  t.same([own.of(1), own.of(2), own.of(3)], [[11], [12], [13]])
  t.same(
    [...own.substitutes([1, 2, 3])].flatMap(([, all]) => all),
    []
  )
  t.same(
    [...own.substitutes([1, 3])],
    [
      [1, []],
      [3, [12]]
    ]
  )
  t.same([...own.substitutes([2])], [[2, [11, 13]]])
  t.same([...own.substitutes([])], [])
  const one = new Sockets(3, [socket(3)])
  t.same([one.of(1), one.of(2), one.of(3)], [[3], [3], [3]])
  t.same([...one.substitutes([2])], [[2, []]], 'all have the same')
  const many = new Sockets(2, [socket(3), socket(4), socket(5)])
  t.same([many.of(1), many.of(2)], [[3, 5], [4]])
  t.same([...many.substitutes([2])], [[2, [3, 5]]])
  many.close()
  t.same(closed, [3, 4, 5])
  t.same(many.descriptors, [])
  t.end()
})

const isSilent = ({ state }: { state: string }): boolean => state === 'silent'
const chain = ['bomb', 'auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']

t.test('connections that wait for a worker which ends are answered, each time that one ends', async (t) => {
  const all = await gateway(
    t,
    { plugins: { bomb: join(import.meta.dirname, 'bomb.ts') }, chain: chain.map((name) => ({ [name]: {} })) },
    { workers: 2 }
  )
  for (let end = 1; end <= 3; end++) {
    const ended = all.ask({ ...models, headers: { 'x-bomb': 'request late 1500' } }).catch(() => {})
    await eventually(async () => (await all.admin('/admin/v1/workers')).data.some(isSilent))
    // Half of them come to the worker that stands still.
    const replies = await Promise.all(Array.from({ length: 40 }, () => all.ask(models)))
    t.same([...new Set(replies.map(({ status }) => status))], [200])
    await ended
    await eventually(() => all.lines.filter(({ message }) => /serves in the place/.test(message)).length === end)
  }
  t.match(await all.admin('/readyz'), { status: 'ok' })
})

async function listening(t: Test): Promise<Server> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return server
}

const descriptorOf = (socket: Server): number => (socket as Server & { _handle: { fd: number } })._handle.fd

/** A gateway of two workers with these sockets for clients, and what it writes. */
async function passed(t: Test, sockets: readonly number[]): Promise<{ output: () => string; pid: number }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'victim.ts'), '2', gatewayFile(t)], {
    stdio: ['ignore', 'pipe', 'pipe', ...sockets],
    env: {
      ...process.env,
      LISTEN_FDS: String(sockets.length),
      LISTEN_FDNAMES: sockets.map(() => 'clients').join(':')
    }
  })
  t.teardown(() => child.kill('SIGKILL'))
  let [output, ended] = ['', false]
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (text: Buffer) => void (output += text.toString()))
  child.on('close', () => (ended = true))
  await eventually(() => ended || output.includes('"ready"'), 300_000)
  return { output: () => output, pid: child.pid! }
}

for (const count of [1, 3])
  t.test(`two workers serve on ${count} sockets that are passed, also after one of them has ended`, async (t) => {
    const sockets = await Promise.all(Array.from({ length: count }, () => listening(t)))
    const { output, pid } = await passed(t, sockets.map(descriptorOf))
    t.match(output(), /"ready"/)
    const urls = sockets.map((socket) => `http://127.0.0.1:${(socket.address() as AddressInfo).port}`)
    // This process would accept connections too.
    for (const socket of sockets) socket.close()
    const admin = /"admin_url":"([^"]+)"/.exec(output())![1]!
    const answered = async (): Promise<void> => {
      const replies = await Promise.all(urls.flatMap((url) => Array.from({ length: 10 }, () => ask(t, url, models))))
      t.same([...new Set(replies.map(({ status }) => status))], [200])
    }
    await answered()
    process.kill(pid, 'SIGHUP')
    await eventually(() => output().includes('a worker has ended'))
    await answered()
    await eventually(async () => (await ask(t, admin, { path: '/readyz' })).json().status === 'ok')
    process.kill(pid, 'SIGTERM')
    await eventually(async () => (await ask(t, urls[0]!, models).catch(() => undefined)) === undefined)
  })

t.test('a socket that no worker can listen on is named, with the remedy', async (t) => {
  const local = createServer().listen(join(folder(t), 'local'))
  await once(local, 'listening')
  t.teardown(() => local.close())
  const { output } = await passed(t, [descriptorOf(local)])
  t.notMatch(output(), /"ready"/)
  t.match(output(), /descriptor 3, which LISTEN_FDS passes for listen, is no TCP socket/)
})
