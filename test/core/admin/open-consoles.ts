// What open consoles cost the requests of clients: processor time of a gateway for each request, in rounds with and
// without consoles that take turns, so that what else the machine does falls on both.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const token = 'the token of the owner of this measurement'
const key = 'sk-measure-000000000000'
const body = JSON.stringify({ model: 'demo', messages: [{ role: 'user', content: 'Hi' }] })

/** Microseconds of processor time for each request, by thread; `all` is their sum. */
export type Cost = Readonly<Record<string, number>>

/** Rounds, each without consoles and with them. */
export interface Measured {
  readonly without: readonly Cost[]
  readonly with: readonly Cost[]
}

/** Measures in so many rounds, each of so many requests twice. */
export async function measureConsoles(consoles: number, rounds: number, requests: number): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-consoles-'))
  const file = join(folder, 'gateway.yaml')
  writeFileSync(
    file,
    JSON.stringify({
      listen: { port: 0 },
      admin: { port: 0, token },
      store: { sqlite: join(folder, 'sluice.db'), durability: 'process' },
      channels: { demo: { protocol: 'simulator', models: { demo: 'demo' } } },
      models: { demo: { price: { input: 1, output: 2 } } },
      tenants: { acme: {} },
      keys: [{ name: 'measure', key, tenant: 'acme' }],
      chain: ['auth', 'quota', 'ratelimit', 'route', 'usage-meter', { log: { sink: 'none' } }]
    })
  )
  const gateway = spawn(
    process.execPath,
    [join(import.meta.dirname, '../../../core/main.ts'), 'start', '--config', file],
    { stdio: ['ignore', 'pipe', 'pipe'] }
  )
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  try {
    const [url, adminUrl] = await addresses(gateway)
    const operators: string[] = []
    for (let number = 0; number < consoles; number++) {
      const made = await send(agent, `${adminUrl}/admin/v1/operators`, token, `{"name":"o${number}","role":"viewer"}`)
      operators.push((JSON.parse(made) as { token: string }).token)
    }
    const round = async (open: number): Promise<Cost> => {
      const streams = operators
        .slice(0, open)
        .flatMap((operator) => [
          watch(`${adminUrl}/admin/v1/live?topics=overview,troubles`, operator),
          watch(`${adminUrl}/admin/v1/live?topics=requests`, operator)
        ])
      const left = await Promise.all(streams)
      const before = threads(gateway.pid!)
      await load(agent, url!, requests)
      const after = threads(gateway.pid!)
      for (const leave of left) leave()
      return costOf(before, after, requests)
    }
    const measured = { without: [] as Cost[], with: [] as Cost[] }
    await round(consoles)
    for (let turn = 0; turn < rounds; turn++) {
      // Which comes first changes, as a machine that gets slower is slower for the second.
      for (const open of turn % 2 === 0 ? [0, consoles] : [consoles, 0])
        measured[open === 0 ? 'without' : 'with'].push(await round(open))
    }
    return measured
  } finally {
    gateway.kill('SIGKILL')
    agent.destroy()
    rmSync(folder, { recursive: true, force: true })
  }
}

function addresses(gateway: ChildProcess): Promise<string[]> {
  let output = ''
  return new Promise((resolve, reject) => {
    const take = (text: Buffer): void => {
      output += text.toString()
      const found = /^.*\bready\b.*https?:\/\/.*\n/m.exec(output)?.[0].match(/https?:\/\/[\w.:[\]-]+/g)
      if (found) resolve(found)
    }
    gateway.stdout!.on('data', take)
    gateway.stderr!.on('data', take)
    gateway.once('exit', () => reject(new Error(`the gateway did not start: ${output}`)))
  })
}

function send(agent: Agent, url: string, secret: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
    const asked = request(url, { method: 'POST', agent, headers }, (reply) => {
      let said = ''
      reply.on('data', (piece: Buffer) => (said += piece.toString()))
      reply.on('end', () => resolve(said))
    })
    asked.on('error', reject)
    asked.end(text)
  })
}

/** Sends requests, sixteen at a time. */
async function load(agent: Agent, url: string, requests: number): Promise<void> {
  let left = requests
  const client = async (): Promise<void> => {
    while (left-- > 0) await send(agent, `${url}/v1/chat/completions`, key, body)
  }
  await Promise.all(Array.from({ length: 16 }, client))
}

/** Opens a stream, once its first bytes are there; the returned function closes it. */
function watch(url: string, secret: string): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { headers: { authorization: `Bearer ${secret}` }, agent: false }, (reply) => {
      if (reply.statusCode !== 200) reject(new Error(`a stream was refused with ${reply.statusCode}`))
      reply.on('error', () => {})
      reply.once('data', () => resolve(() => asked.destroy()))
    })
    asked.on('error', reject)
    asked.end()
  })
}

/** Nanoseconds that each thread has run, by its number, with its name. */
function threads(pid: number): Map<string, { name: string; ran: number }> {
  const folder = `/proc/${pid}/task`
  return new Map(
    readdirSync(folder).flatMap((thread) => {
      try {
        const name = thread === String(pid) ? 'main' : readFileSync(`${folder}/${thread}/comm`, 'utf8').trim()
        const ran = Number(readFileSync(`${folder}/${thread}/schedstat`, 'utf8').split(' ')[0])
        return [[thread, { name, ran }]]
      } catch {
        // It ended meanwhile.
        return []
      }
    })
  )
}

function costOf(before: ReturnType<typeof threads>, after: ReturnType<typeof threads>, requests: number): Cost {
  const cost: Record<string, number> = { all: 0 }
  for (const [thread, { name, ran }] of after) {
    const us = (ran - (before.get(thread)?.ran ?? 0)) / 1000 / requests
    cost['all']! += us
    cost[name] = (cost[name] ?? 0) + us
  }
  return cost
}
