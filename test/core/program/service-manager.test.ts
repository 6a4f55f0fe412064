// What a service manager hears of the gateway, on a socket of datagrams like that of systemd.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../../kit/client.ts'
import { spawnGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { lacks, program } from '../../kit/programs.ts'

t.setTimeout(600_000)
const patience = 60_000

/** Prints each datagram as a line. Node has no such sockets. */
const listener = `
import socket, sys
heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
heard.bind(sys.argv[1])
print('bound', flush=True)
while True: print(heard.recv(4096).decode().replace('\\n', ' '), flush=True)
`

/** A socket for notices, and what has come on it: the assignments of each notice. */
async function notices(t: Test): Promise<{ path: string; heard: Record<string, string>[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  const path = join(folder, 'notify')
  const child = spawn(program('python3')!, ['-c', listener, path], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  await eventually(() => output.startsWith('bound\n'), patience)
  return {
    path,
    get heard() {
      const lines = output.split('\n').slice(1, -1)
      // With it systemd-notify waits until what it said is read.
      const said = lines.filter((line) => line !== 'BARRIER=1')
      return said.map((line) => Object.fromEntries(line.split(' ').map((pair) => pair.split('=')))) as Record<
        string,
        string
      >[]
    }
  }
}

t.test(
  'it hears of each process that serves, and that the last one stops',
  { skip: lacks('python3', 'systemd-notify') },
  async (t) => {
    const manager = await notices(t)
    const running = await spawnGateway(t, {}, { env: { NOTIFY_SOCKET: manager.path } })
    const first = running.process.pid!
    await eventually(() => manager.heard.length === 1, patience)
    t.match(manager.heard, [{ READY: '1', MAINPID: String(first) }])

    // On a busy machine a process may take longer to load than it is given: then it is asked for again.
    let pid = first
    await eventually(async () => {
      const { status, json } = await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/upgrade' })
      if (status === 200) pid = json().pid
      return status === 200
    }, patience)
    t.not(pid, first)
    await eventually(() => manager.heard.length === 2, patience)
    t.match(manager.heard[1], { READY: '1', MAINPID: String(pid) })
    await running.exited

    process.kill(pid, 'SIGTERM')
    await eventually(() => manager.heard.length === 3, patience)
    t.match(manager.heard[2], { STOPPING: '1' }, 'and the first one has not said that the service stops')
  }
)
