// Prints what a small request costs with one thread and with workers: CPU time by the kind of thread, so that it says
// something on a machine with few cores too. Run it by hand: node test/core/workers/measure.ts
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { startGateway } from '../../../core/container.ts'
import { silentLog } from '../../../core/telling/log.ts'
import { configOf, inParallel, key, secretOf } from '../../money/rig.ts'

const connections = 64
const [warmUp, measured] = [12_000, 6000]
/** The kernel counts CPU time in hundredths of a second. */
const tick = 10_000

const answer = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'plain',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello there' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
})
const question = JSON.stringify({ model: 'plain', max_tokens: 50, messages: [{ role: 'user', content: 'Hi there' }] })

/** Runs the gateway in this process until it is killed. */
async function serve(config: string, workers: number): Promise<void> {
  const { url } = await startGateway({ config, workers, log: silentLog })
  process.send!(url)
}

/** CPU time of the threads of a process in ticks, by their names. */
function ticksOf({ pid }: ChildProcess): Map<string, number> {
  const found = new Map<string, number>()
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const [, name, rest] = /\((.*)\) (.*)/.exec(readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8'))!
    const fields = rest!.split(' ')
    const kind = name!.replace(/^worker \d+$/, 'workers')
    found.set(kind, (found.get(kind) ?? 0) + Number(fields[11]) + Number(fields[12]))
  }
  return found
}

async function measure(upstream: { name: string; url: string }, workers: number): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), 'sluice-workers-'))
  const keys = Array.from({ length: 8 }, (_, i) =>
    key(`k${i}`, { budget: { usd: 1000, per: 'day' }, limits: { rpm: 10_000_000, concurrency: 1000 } })
  )
  const file = join(home, 'gateway.yaml')
  const store = { sqlite: join(home, 'sluice.db'), durability: 'process' }
  writeFileSync(file, stringify(configOf([upstream], { store, keys })))
  const child = fork(import.meta.filename, [file, String(workers)])
  const [url] = (await once(child, 'message')) as [string]
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const ask = (index: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${secretOf(`k${index % 8}`)}`, 'content-type': 'application/json' }
      const outgoing = request(`${url}/v1/chat/completions`, { method: 'POST', agent, headers }, (response) => {
        if (response.statusCode !== 200) reject(new Error(`a request was answered with ${response.statusCode}`))
        response.resume().on('end', resolve)
      })
      outgoing.on('error', reject).end(question)
    })
  await inParallel(warmUp, connections, ask)
  const [before, began] = [ticksOf(child), performance.now()]
  await inParallel(measured, connections, ask)
  const [after, ended] = [ticksOf(child), performance.now()]
  child.kill('SIGKILL')
  await once(child, 'exit')
  agent.destroy()
  rmSync(home, { recursive: true, force: true })
  const spent = (of: (kind: string) => boolean): number =>
    Math.round(
      ([...after].reduce((sum, [kind, ticks]) => sum + (of(kind) ? ticks - (before.get(kind) ?? 0) : 0), 0) * tick) /
        measured
    )
  const named = ['MainThread', 'workers', 'writer-thread']
  const columns = [...named.map((name) => spent((kind) => kind === name)), spent((kind) => !named.includes(kind))]
  const rate = Math.round((measured / (ended - began)) * 1000)
  console.log(`| ${workers} | ${columns.join(' | ')} | ${spent(() => true)} | ${rate} |`)
}

const [file, workers] = process.argv.slice(2)
if (file !== undefined) await serve(file, Number(workers))
else {
  const server = createServer((asked, response) => {
    asked.resume().on('end', () => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.length }).end(answer)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  console.log('| Workers | main thread, µs | workers | writer | others | all | requests a second |')
  console.log('|---|---|---|---|---|---|---|')
  for (const workers of [1, 2, 4]) await measure({ name: 'up', url }, workers)
  server.close()
}
