// Sockets that a gateway is started with, as systemd passes them.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { inheritedSockets } from '../../../core/clients/inherited.ts'
import { ask } from '../../kit/client.ts'
import { gatewayFile, testKey } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'

const main = join(import.meta.dirname, '..', '..', '..', 'core/main.ts')
/** Where Linux says how many connections may wait at most. */
const bound = '/proc/sys/net/core/somaxconn'
const models = { path: '/v1/models', headers: { authorization: `Bearer ${testKey}` } }

t.test('sockets are told apart by their names, and by their order when they have none', (t) => {
  const pid = String(process.pid)
  for (const [env, expected] of [
    [{}, {}],
    [{ LISTEN_FDS: '1', LISTEN_PID: pid }, { clients: 3 }],
    [
      { LISTEN_FDS: '2', LISTEN_PID: pid },
      { clients: 3, admin: 4 }
    ],
    [
      { LISTEN_FDS: '2', LISTEN_PID: pid, LISTEN_FDNAMES: 'admin:clients' },
      { admin: 3, clients: 4 }
    ],
    [{ LISTEN_FDS: '1', LISTEN_PID: pid, LISTEN_FDNAMES: 'admin' }, { admin: 3 }],
    [
      { LISTEN_FDS: '2', LISTEN_PID: pid, LISTEN_FDNAMES: 'sluice.socket:sluice.socket' },
      { clients: 3, admin: 4 }
    ],
    [{ LISTEN_FDS: '1', LISTEN_PID: '1' }, {}]
  ] as const) {
    const given: NodeJS.ProcessEnv = { ...env }
    t.strictSame(inheritedSockets(given), expected, JSON.stringify(env))
    t.strictSame(given, {}, 'the variables are gone')
  }
  for (const [env, message] of [
    [{ LISTEN_FDS: 'two' }, /LISTEN_FDS is "two"/],
    [{ LISTEN_FDS: '3' }, /3 sockets/],
    [{ LISTEN_FDS: '2', LISTEN_FDNAMES: 'clients:other' }, /named clients or admin/],
    [{ LISTEN_FDS: '2', LISTEN_FDNAMES: 'admin:admin' }, /two sockets named admin/]
  ] as const)
    t.throws(() => inheritedSockets({ ...env }), message)
  t.end()
})

t.test('a gateway serves on the sockets that it is passed, whatever addresses its file has', async (t) => {
  const sockets = [await listening(t), await listening(t)]
  const file = gatewayFile(t, { listen: { port: 1 }, admin: { port: 2 } })
  const child = spawn(process.execPath, [main, 'start', '--config', file], {
    stdio: ['ignore', 'pipe', 'inherit', ...sockets.map(descriptor)],
    env: { ...process.env, LISTEN_FDS: '2', LISTEN_FDNAMES: 'admin:clients' }
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [admin, clients] = sockets.map(portOf)
  // This process would accept connections too.
  for (const socket of sockets) socket.close()
  const [ready] = (await once(child.stdout!, 'data')) as [Buffer]
  t.match(JSON.parse(ready.toString().split('\n')[0]!), {
    url: `http://127.0.0.1:${clients}`,
    admin_url: `http://127.0.0.1:${admin}`
  })
  t.equal((await ask(t, `http://127.0.0.1:${clients}`, models)).status, 200)
  t.equal((await ask(t, `http://127.0.0.1:${admin}`, { path: '/readyz' })).status, 200)
})

const longest = Number(existsSync(bound) ? readFileSync(bound, 'utf8') : 0)
const tooShort = longest < 1024 && 'the kernel lets fewer connections wait'

t.test(
  'as many connections may wait on a socket that is passed as on one of its own',
  { skip: tooShort },
  async (t) => {
    const socket = await listening(t)
    const file = gatewayFile(t)
    const child = spawn(process.execPath, [main, 'start', '--config', file], {
      stdio: ['ignore', 'pipe', 'inherit', descriptor(socket)],
      env: { ...process.env, LISTEN_FDS: '1', LISTEN_FDNAMES: 'clients' }
    })
    t.teardown(() => child.kill('SIGKILL'))
    const port = portOf(socket)
    socket.close()
    await once(child.stdout!, 'data')
    // As in a hand-over on a busy machine, nobody accepts for a while.
    child.kill('SIGSTOP')
    let connected = 0
    const clients = Array.from({ length: 700 }, () =>
      connect(port, '127.0.0.1', () => connected++).on('error', () => {})
    )
    t.teardown(() => clients.forEach((client) => client.destroy()))
    await eventually(() => connected === clients.length, 60_000)
    child.kill('SIGCONT')
    t.equal((await ask(t, `http://127.0.0.1:${port}`, models)).status, 200)
  }
)

const activator = 'systemd-socket-activate'
const skip = spawnSync(activator, ['--version']).error ? `${activator} is not installed (Debian: systemd)` : false
t.test('systemd starts a gateway with the first connection, which is answered', { skip }, async (t) => {
  const free = [await listening(t), await listening(t)]
  const [clients, admin] = free.map(portOf)
  for (const server of free) await new Promise((resolve) => server.close(resolve))
  const sockets = [clients, admin].flatMap((port) => ['-l', `127.0.0.1:${port}`])
  const command = [process.execPath, main, 'start', '--config', gatewayFile(t)]
  const child = spawn(activator, [...sockets, '--fdname=clients:admin', ...command], {
    stdio: ['ignore', 'ignore', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  let said = ''
  child.stderr!.on('data', (text) => void (said += text))
  await eventually(() => said.includes('Listening on'), 10_000)
  t.equal((await ask(t, `http://127.0.0.1:${clients}`, models)).status, 200)
  t.equal((await ask(t, `http://127.0.0.1:${admin}`, { path: '/readyz' })).status, 200)
})

async function listening(t: Test): Promise<Server> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return server
}

function descriptor(server: Server): number {
  return (server as Server & { _handle: { fd: number } })._handle.fd
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port
}
