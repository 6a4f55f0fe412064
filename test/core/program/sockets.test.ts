// Sockets that a gateway is started with, as systemd passes them.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createSocket } from 'node:dgram'
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { tmpdir } from 'node:os'
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
t.setTimeout(600_000)

const models = { path: '/v1/models', headers: { authorization: `Bearer ${testKey}` } }

t.test('sockets are told apart by their names, and by their order when they have none', (t) => {
  const pid = String(process.pid)
  for (const [env, expected] of [
    [{}, {}],
    [{ LISTEN_FDS: '1', LISTEN_PID: pid }, { clients: [3] }],
    [
      { LISTEN_FDS: '2', LISTEN_PID: pid },
      { clients: [3], admin: 4 }
    ],
    [
      { LISTEN_FDS: '2', LISTEN_PID: pid, LISTEN_FDNAMES: 'admin:clients' },
      { admin: 3, clients: [4] }
    ],
    [{ LISTEN_FDS: '1', LISTEN_PID: pid, LISTEN_FDNAMES: 'admin' }, { admin: 3 }],
    [
      { LISTEN_FDS: '2', LISTEN_PID: pid, LISTEN_FDNAMES: 'sluice.socket:sluice.socket' },
      { clients: [3], admin: 4 }
    ],
    [
      { LISTEN_FDS: '3', LISTEN_FDNAMES: 'clients:admin:clients' },
      { clients: [3, 5], admin: 4 }
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
    stdio: ['ignore', 'pipe', 'inherit', ...sockets.map(descriptorOf)],
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
      stdio: ['ignore', 'pipe', 'inherit', descriptorOf(socket)],
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

/** Starts the program with these descriptors, announced so, until it is ready or ends. */
async function startedWith(
  t: Test,
  passed: readonly (number | Server)[],
  env: NodeJS.ProcessEnv
): Promise<{ code: number | null; err: string; ready: boolean }> {
  const stdio = passed.map((one) => (typeof one === 'number' ? one : descriptorOf(one)))
  const child = spawn(process.execPath, [main, 'start', '--config', gatewayFile(t)], {
    stdio: ['ignore', 'pipe', 'pipe', ...stdio],
    env: { ...process.env, LISTEN_FDS: String(passed.length), ...env }
  })
  t.teardown(() => child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout!.on('data', (text: Buffer) => (out += text.toString()))
  child.stderr!.on('data', (text: Buffer) => (err += text.toString()))
  const closed = once(child, 'close')
  let ended = false
  child.on('close', () => (ended = true))
  await eventually(() => ended || out.includes('"ready"'), 300_000)
  const ready = out.includes('"ready"')
  child.kill('SIGKILL')
  await closed
  return { code: child.exitCode, err, ready }
}

t.test('descriptors that are no sockets to listen on are named, and the program ends with a remedy', async (t) => {
  const tcp = await listening(t)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const local = createServer().listen(join(folder, 'local'))
  await once(local, 'listening')
  t.teardown(() => local.close())
  const datagrams = createSocket('udp4').bind(0, '127.0.0.1')
  await once(datagrams, 'listening')
  t.teardown(() => datagrams.close())
  const udp = (datagrams as unknown as { _handle?: { fd: number } } & Record<symbol, { handle: { fd: number } }>)[
    Object.getOwnPropertySymbols(datagrams).find((one) => one.description === 'state symbol')!
  ]!.handle.fd
  const file = openSync(join(import.meta.dirname, 'sockets.test.ts'), 'r')
  t.teardown(() => closeSync(file))
  const client = connect(portOf(tcp), '127.0.0.1')
  const [accepted] = (await once(tcp, 'connection')) as [Socket]
  t.teardown(() => [client, accepted].forEach((one) => one.destroy()))
  const cases: readonly (readonly [what: string, passed: (number | Server)[], env: NodeJS.ProcessEnv, says: RegExp])[] =
    [
      ['fewer than announced', [tcp], { LISTEN_FDS: '2' }, /descriptor 4, .* for admin, is no TCP socket/],
      ['none', [], { LISTEN_FDS: '1' }, /descriptor 3, which LISTEN_FDS passes for listen, is no TCP socket/],
      ['a file', [file], {}, /descriptor 3, .* for listen, is no TCP socket/],
      ['a socket of datagrams', [udp], {}, /descriptor 3, .* for listen, is no TCP socket/],
      ['a connection', [descriptorOf(accepted)], {}, /descriptor 3, .* for listen, is no TCP socket/],
      ['a socket in the file system', [local], {}, /descriptor 3, .* for listen, is no TCP socket .*no address/],
      ['one socket twice', [tcp, tcp], {}, /LISTEN_FDS passes one socket for both/],
      ['strange names', [tcp], { LISTEN_FDNAMES: '\u00fc:::clients' }, /LISTEN_FDNAMES is .*named clients or admin/]
    ]
  for (const [what, passed, env, says] of cases) {
    const { code, err, ready } = await startedWith(t, passed, env)
    t.match(err, says, what)
    t.same({ code, ready }, { code: 1, ready: false }, what)
    t.notMatch(err, /does not end by itself|    at /, `${what}: it ends in order`)
  }
  for (const env of [{ LISTEN_PID: '1' }, { LISTEN_PID: 'somebody' }])
    t.ok((await startedWith(t, [file], env)).ready, `what is for another process is left alone: ${env.LISTEN_PID}`)
})

async function listening(t: Test): Promise<Server> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return server
}

function descriptorOf(socket: Server | Socket): number {
  return (socket as Server & { _handle: { fd: number } })._handle.fd
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port
}
