// Whether what ends does end: `node test/chaos/ends.ts [commands] [starts]` runs the built program that often, several
// at a time, and counts processes that stand still. 2000 and 500 when left out, which takes the better part of an hour.
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Makes V8's background threads ask the main thread for collections of garbage all the time: what waits for such a
 * thread without collecting stands still in a third of all runs instead of one in a hundred.
 */
export const stress: readonly string[] = [
  '--min-semi-space-size=1',
  '--max-semi-space-size=1',
  '--stress-concurrent-allocation'
]

/** How a process ended: its exit code, the signal that killed it, or that it stood still and was killed. */
export type End = number | NodeJS.Signals | 'stands still'

/** Milliseconds without any CPU time that nothing on its way to an end spends, however busy the machine is. */
const stillMs = 15_000

/** CPU time of a process so far, as /proc tells it; undefined when the process is gone. */
function cpuTime({ pid }: ChildProcess): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ').slice(11, 13).join()
  } catch {
    return undefined
  }
}

/** Waits until a process has ended, or kills it when it stands still. */
export async function endOf(child: ChildProcess): Promise<End> {
  let last: string | undefined
  let since = performance.now()
  let still = false
  const timer = setInterval(() => {
    const now = cpuTime(child)
    if (now !== last) since = performance.now()
    last = now
    if (performance.now() - since < stillMs) return
    still = true
    child.kill('SIGKILL')
  }, 1000)
  const ended = once(child, 'exit')
  const [code, signal] =
    (child.exitCode ?? child.signalCode) === null ? await ended : [child.exitCode, child.signalCode]
  clearInterval(timer)
  return still ? 'stands still' : ((code ?? signal) as End)
}

/** Runs a command of the program to its end. */
export function command(program: readonly string[], args: readonly string[], cwd: string): Promise<End> {
  return endOf(spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, ...program, ...args], { cwd, stdio: 'ignore' }))
}

/**
 * Starts a gateway, lets it answer some requests, one of which is translated in a thread, stops it with one signal
 * or two, and waits for its end.
 */
export async function startAndStop(program: readonly string[], file: string, signals: number): Promise<End> {
  const args = ['-u', 'NODE_OPTIONS', process.execPath, ...program, 'start', '--config', file]
  const child = spawn('env', args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  const ready = new Promise<string | undefined>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (text: Buffer) => {
        output += text.toString()
        const found = /ready.*?(https?:[^\s"]+)/.exec(output)
        if (found) resolve(found[1])
      })
    }
    child.once('exit', () => resolve(undefined))
  })
  const url = await ready
  if (url === undefined) throw new Error(`the gateway did not start: ${output}`)
  const body = (stream: boolean): string =>
    JSON.stringify({
      model: stream ? 'demo' : 'far',
      stream,
      messages: [{ role: 'user', content: 'x'.repeat(stream ? 10 : 200_000) }]
    })
  const headers = { authorization: 'Bearer sk-ends-000000000000', 'content-type': 'application/json' }
  const ask = (stream: boolean): Promise<unknown> =>
    fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body: body(stream) }).then((reply) => reply.text())
  const asked = Promise.allSettled([true, false, true].map(ask))
  if (signals === 1) await asked
  for (let signal = 0; signal < signals; signal++) {
    child.kill('SIGTERM')
    await sleep(20)
  }
  const end = await endOf(child)
  await asked
  if (output.includes('does not end by itself')) throw new Error(output)
  return end
}

/** A configuration of its own, for one gateway. `upstream` is asked in the protocol of Anthropic. */
export function gatewayFile(folder: string, upstream: string): string {
  const file = join(folder, 'gateway.yaml')
  writeFileSync(
    file,
    JSON.stringify({
      listen: { port: 0 },
      admin: { port: 0 },
      store: { sqlite: join(folder, 'sluice.db'), durability: 'process' },
      channels: {
        demo: { protocol: 'simulator', models: { demo: 'demo' } },
        far: { protocol: 'anthropic', base_url: upstream, private: true, models: { far: 'far' } }
      },
      models: { demo: { price: 'free' }, far: { price: 'free' } },
      tenants: { acme: {} },
      keys: [{ name: 'ends', key: 'sk-ends-000000000000', tenant: 'acme' }],
      chain: [
        'auth',
        'quota',
        'ratelimit',
        'route',
        'protocol-translate',
        'usage-meter',
        { log: { sink: 'stdout' } }
      ].map((one) => (typeof one === 'string' ? { [one]: {} } : one))
    })
  )
  return file
}

/** Does something `times` times, some at a time, and says how often it came to what. */
async function tally(what: string, times: number, one: (index: number) => Promise<End>): Promise<Map<End, number>> {
  const ends = new Map<End, number>()
  let begun = 0
  let done = 0
  const turns = async (): Promise<void> => {
    while (begun < times) {
      const end = await one(begun++)
      ends.set(end, (ends.get(end) ?? 0) + 1)
      done++
      if (done % 100 === 0 || done === times)
        console.log(`${done} ${what}: ${JSON.stringify(Object.fromEntries(ends))}`)
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() * 3 }, turns))
  return ends
}

async function main(commands: number, starts: number): Promise<number> {
  const root = join(import.meta.dirname, '../..')
  const built = spawnSync(process.execPath, [join(root, '.tools/build.ts')], { stdio: 'inherit' })
  if (built.status !== 0) return 1
  const folder = mkdtempSync(join(tmpdir(), 'sluice-ends-'))
  // A copy, as others may build anew meanwhile.
  for (const part of ['dist', 'package.json', 'config/gateway.schema.json']) {
    cpSync(join(root, part), join(folder, part), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const program = join(folder, 'dist/core/main.js')
  const refusing = createServer((request, response) => request.resume().on('end', () => response.writeHead(500).end()))
  await once(refusing.listen(0, '127.0.0.1'), 'listening')
  const upstream = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}`
  try {
    const file = gatewayFile(folder, upstream)
    const first = await startAndStop([program], file, 1)
    if (first !== 0) throw new Error(`a gateway that is started and stopped ends with ${first}`)
    const lines = [
      ['version'],
      ['help'],
      ['check', '--config', file],
      ['plugins'],
      ['ledger', 'verify', '--config', file]
    ]
    const ends = new Set<End>()
    // Half of them as they are, and half where they are likely to stand still.
    for (const flags of [[], stress]) {
      const how = flags.length > 0 ? ', collecting all the time' : ''
      const ran = await tally(`commands${how}`, commands >> 1, (index) =>
        command([...flags, program], lines[index % lines.length]!, folder)
      )
      const started = await tally(`starts and stops${how}`, starts >> 1, async (index) => {
        const own = mkdtempSync(join(folder, 'gateway-'))
        const end = await startAndStop([...flags, program], gatewayFile(own, upstream), 1 + (index % 2))
        rmSync(own, { recursive: true })
        return end
      })
      for (const end of [...ran.keys(), ...started.keys()]) ends.add(end)
    }
    return ends.has('stands still') ? 1 : 0
  } finally {
    rmSync(folder, { recursive: true, force: true })
    refusing.close()
    refusing.closeAllConnections()
  }
}

if (process.argv[1] === import.meta.filename) {
  const [commands = 2000, starts = 500] = process.argv.slice(2).map(Number)
  process.exitCode = await main(commands, starts)
}
