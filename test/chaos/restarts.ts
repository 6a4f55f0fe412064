// Hands a gateway over again and again under load, and counts what its clients noticed: nothing is the only good count.
// As a script: node test/chaos/restarts.ts [hand-overs, default 100] [requests a second, default 300]
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request as requestHttp } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import type { ClientHttp2Session } from 'node:http2'
import { Agent as TlsAgent, request as requestHttps } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { stringify } from 'yaml'
import { makeCertificate } from '../kit/certificate.ts'
import { readHttp2 } from '../kit/http2.ts'

const root = join(import.meta.dirname, '..', '..')
const key = 'sk-test-000000000000000000000000'
/** Nano-dollars of a token: one dollar per million of input, two per million of output. */
const price = { input: 1000n, output: 2000n }

/** What became of the requests, and of the money. */
export interface Tally {
  handOvers: number
  answered: number
  refused: number
  reset: number
  cut: number
  /** Answers that the ledger has no charge for, and those that it has several for. */
  lost: number
  doubled: number
  /** Charges for what no client was answered. */
  unasked: number
  /** Nano-dollars: what the answers come to, and what the ledger has. */
  due: bigint
  charged: bigint
  /** Requests that a client of HTTP/2 took back by itself, unsent, and sent in a new session. */
  takenBack: number
  slowestMs: number
  /** How long no process had the store, for each hand-over. */
  gapsMs: number[]
  verified: boolean
  /** Some of what went wrong, in words, and how often it did. */
  remarks: string[]
}

/** A gateway as a row of processes. */
class Row {
  readonly #child: ChildProcess
  readonly #waiting: (() => void)[] = []
  pid = 0
  generation = 0
  url = ''
  output = ''
  readonly gapsMs: number[] = []

  constructor(file: string) {
    this.#child = spawn(process.execPath, [join(root, 'core/main.ts'), 'start', '--config', file], {
      stdio: ['ignore', 'pipe', 'pipe']
    })
    for (const stream of [this.#child.stdout!, this.#child.stderr!]) {
      let rest = ''
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.output += text
        const lines = (rest + text).split('\n')
        rest = lines.pop()!
        for (const line of lines) this.#read(line)
      })
    }
  }

  /** Resolves when a process of this generation is ready. */
  async ready(generation: number): Promise<void> {
    const late = sleep(60_000, undefined, { ref: false }).then(() => {
      throw new Error(`generation ${generation} does not come: ${this.output.slice(-2000)}`)
    })
    while (this.generation < generation)
      await Promise.race([new Promise<void>((resolve) => void this.#waiting.push(resolve)), late])
  }

  /** Stops the present process; resolves when its output has ended, and so those before it. */
  async stop(): Promise<void> {
    const closed = Promise.all([this.#child.stdout!, this.#child.stderr!].map((stream) => once(stream, 'close')))
    process.kill(this.pid, 'SIGTERM')
    await closed
  }

  kill(): void {
    try {
      if (this.pid > 0) process.kill(this.pid, 'SIGKILL')
    } catch {
      // It is gone already, which is why nothing came.
    }
  }

  #read(line: string): void {
    if (!line.startsWith('{')) return
    const said = JSON.parse(line)
    if (said.gap_ms !== undefined) this.gapsMs.push(said.gap_ms)
    if (said.message !== 'ready') return
    Object.assign(this, { pid: said.pid, generation: said.generation, url: said.url })
    for (const tell of this.#waiting.splice(0)) tell()
  }
}

/** Runs the load over so many hand-overs, with a listener of clear text or of TLS. */
export async function restarts({
  handOvers,
  rate,
  tls = false
}: {
  handOvers: number
  rate: number
  tls?: boolean
}): Promise<Tally> {
  const folder = mkdtempSync(join(tmpdir(), 'restarts-'))
  const ended = [(): void => rmSync(folder, { recursive: true, force: true })]
  const row = new Row(configure(folder, tls, ended))
  try {
    await row.ready(1)
    const load = new Load(row.url, rate)
    for (let next = 2; next <= handOvers + 1; next++) {
      await sleep(200)
      process.kill(row.pid, 'SIGUSR2')
      await row.ready(next)
    }
    await sleep(500)
    const tally = await load.end()
    await row.stop()
    return { ...tally, handOvers, gapsMs: row.gapsMs, ...judge(folder, load) }
  } catch (error) {
    row.kill()
    throw error
  } finally {
    for (const clean of ended) clean()
  }
}

function configure(folder: string, tls: boolean, ended: (() => void)[]): string {
  const file = join(folder, 'gateway.yaml')
  const listen: Record<string, unknown> = { host: '127.0.0.1', port: 0 }
  if (tls) {
    const { cert, key: secret } = makeCertificate({ teardown: (done) => void ended.push(done as () => void) })
    listen['tls'] = { cert, key: secret }
  }
  const limits = { rpm: 1_000_000, tpm: 1_000_000_000, concurrency: 5000 }
  const text = stringify({
    listen,
    admin: { host: '127.0.0.1', port: 0 },
    store: { sqlite: join(folder, 'sluice.db'), durability: 'process' },
    // On a busy machine some answers take long.
    limits: { drain_timeout: '60s' },
    channels: { demo: { protocol: 'simulator', models: { demo: 'demo' } } },
    models: { demo: { price: { input: 1, output: 2 }, context_window: 100_000 } },
    tenants: { acme: { budget: { usd: 1_000_000, per: 'month' } } },
    keys: [{ name: 'test', key, tenant: 'acme', limits }],
    chain: ['auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter', 'log'].map((name) => ({
      [name]: name === 'log' ? { sink: 'none' } : {}
    }))
  })
  writeFileSync(file, text)
  return file
}

type Kind = 'new' | 'kept' | 'http2' | 'stream'
const kinds: readonly Kind[] = ['new', 'kept', 'http2', 'kept', 'new', 'http2', 'kept', 'stream']
/** Sessions that are open at one time. */
const sessions = 4

/** Clients of many kinds, who send requests at a steady rate and never repeat one. */
class Load {
  /** The cost of each answer, by the id of its request. */
  readonly due = new Map<string, bigint>()
  /** What turns of sessions cost. */
  readonly turns: bigint[] = []
  readonly #url: URL
  readonly #isTls: boolean
  readonly #keeping: Agent | TlsAgent
  #http2: ClientHttp2Session | undefined
  readonly #tally = { answered: 0, refused: 0, reset: 0, cut: 0, takenBack: 0, slowestMs: 0 }
  readonly #remarks = new Map<string, number>()
  readonly #open = new Set<Promise<void>>()
  #sent = 0
  readonly #began = performance.now()
  readonly #timer: NodeJS.Timeout
  #ending = false

  constructor(url: string, rate: number) {
    this.#url = new URL(url)
    this.#isTls = this.#url.protocol === 'https:'
    const options = { keepAlive: true, maxSockets: 40, rejectUnauthorized: false }
    this.#keeping = this.#isTls ? new TlsAgent(options) : new Agent(options)
    this.#timer = setInterval(() => {
      const wanted = Math.floor(((performance.now() - this.#began) / 1000) * rate)
      // After a pause of this process there is no use in catching up at once.
      for (let burst = 0; this.#sent < wanted && burst < 50; burst++) this.#send(kinds[this.#sent++ % kinds.length]!)
    }, 5)
    for (let one = 0; one < sessions; one++) this.#follow(this.#session())
  }

  /** Sends no more, and resolves when all is answered. */
  async end(): Promise<Omit<Tally, 'handOvers' | 'gapsMs' | keyof ReturnType<typeof judge>>> {
    clearInterval(this.#timer)
    this.#ending = true
    while (this.#open.size > 0) await Promise.all(this.#open)
    this.#http2?.close()
    this.#keeping.destroy()
    return { ...this.#tally, remarks: Array.from(this.#remarks, ([text, times]) => `${times} × ${text}`) }
  }

  #follow(done: Promise<void>): void {
    const noted = done.finally(() => this.#open.delete(noted))
    this.#open.add(noted)
  }

  #send(kind: Kind): void {
    const began = performance.now()
    const done = kind === 'http2' ? this.#overHttp2() : this.#overHttp1(kind)
    this.#follow(
      done.then(
        () => void (this.#tally.slowestMs = Math.max(this.#tally.slowestMs, performance.now() - began)),
        (error: NodeJS.ErrnoException) => this.#failed(kind, error)
      )
    )
  }

  #failed(kind: string, error: NodeJS.ErrnoException): void {
    const what = error.code === 'ECONNREFUSED' || error.message.startsWith('status') ? 'refused' : 'reset'
    this.#tally[error.message.startsWith('cut') ? 'cut' : what]++
    this.#remark(`${kind}: ${error.code ?? ''} ${error.message}`)
  }

  #remark(text: string): void {
    const known = this.#remarks.get(text)
    if (known !== undefined || this.#remarks.size < 20) this.#remarks.set(text, (known ?? 0) + 1)
  }

  async #overHttp1(kind: Kind): Promise<void> {
    const ask = this.#isTls ? requestHttps : requestHttp
    const request = ask(new URL('/v1/chat/completions', this.#url), {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      agent: kind === 'kept' ? this.#keeping : false,
      rejectUnauthorized: false
    })
    // An error that comes after the answer shows on the answer too.
    request.on('error', () => {})
    request.end(bodyOf(kind === 'stream'))
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    let text = ''
    try {
      for await (const piece of response) text += String(piece)
    } catch (error) {
      throw new Error(`cut: ${(error as Error).message}`, { cause: error })
    }
    this.#answered(response.statusCode!, String(response.headers['x-request-id']), text, kind === 'stream')
  }

  async #overHttp2(): Promise<void> {
    if (!this.#http2 || this.#http2.closed || this.#http2.destroyed) {
      const session = connectHttp2(this.#url, { rejectUnauthorized: false })
      session.on('error', () => {})
      session.on('goaway', () => {
        if (this.#http2 === session) this.#http2 = undefined
      })
      this.#http2 = session
    }
    const stream = this.#http2.request({
      ':method': 'POST',
      ':path': '/v1/chat/completions',
      authorization: `Bearer ${key}`,
      'content-type': 'application/json'
    })
    stream.end(bodyOf(false))
    let begun = false
    stream.once('response', () => (begun = true))
    try {
      const { headers, text } = await readHttp2(stream)
      this.#answered(Number(headers[':status']), String(headers['x-request-id']), text, false)
    } catch (error) {
      // Node's client ends a request that waits in it when it hears of the end of the session: nothing was sent.
      if (!begun && /NGHTTP2_REFUSED_STREAM/.test(String(error))) {
        this.#tally.takenBack++
        return this.#overHttp2()
      }
      throw begun ? new Error(`cut: ${(error as Error).message}`, { cause: error }) : error
    }
  }

  #answered(status: number, id: string, text: string, streamed: boolean): void {
    if (status !== 200) throw new Error(`status ${status}: ${text.slice(0, 300)}`)
    if (streamed && !text.includes('data: [DONE]')) throw new Error(`cut: a stream ended with ${text.slice(-80)}`)
    const said = /"usage":(\{"prompt_tokens":(\d+),"completion_tokens":(\d+)[^}]*\})/.exec(text)
    if (!said) throw new Error(`cut: an answer without its usage: ${text.slice(-200)}`)
    if (this.due.has(id)) this.#remark(`the id ${id} was given twice`)
    this.due.set(id, costOf(Number(said[2]), Number(said[3])))
    this.#tally.answered++
  }

  /** Opens sessions one after another, and asks for one response after another in each, until it is closed. */
  async #session(): Promise<void> {
    while (!this.#ending) {
      const socket = new WebSocket(`${this.#url.origin.replace('http', 'ws')}/v1/realtime?model=demo`, {
        headers: { authorization: `Bearer ${key}` },
        rejectUnauthorized: false
      })
      let answering = false
      const ask = (): void => {
        if (this.#ending) return socket.close()
        answering = true
        for (const event of turn) socket.send(JSON.stringify(event))
      }
      socket.on('open', ask)
      socket.on('message', (data: Buffer) => {
        const event = JSON.parse(data.toString())
        if (event.type !== 'response.done') return
        answering = false
        const { input_tokens: input, output_tokens: output } = event.response.usage
        this.turns.push(costOf(input, output))
        setTimeout(ask, 20)
      })
      socket.on('error', (error) => this.#failed('session', error))
      const [code] = await once(socket, 'close').catch(() => [0])
      // A request that crosses the end of a session was not begun by the gateway.
      if (answering && code !== 1012) {
        this.#tally.cut++
        this.#remark(`a session was closed with ${code} inside a response`)
      }
    }
  }
}

const turn = [
  {
    type: 'conversation.item.create',
    item: { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi [[simulator {"gap_ms": 20}]]' }] }
  },
  { type: 'response.create', response: { output_modalities: ['text'] } }
]

function bodyOf(stream: boolean): string {
  const directive = stream ? ' [[simulator {"text": "one two three four five six seven eight", "gap_ms": 150}]]' : ''
  return JSON.stringify({
    model: 'demo',
    messages: [{ role: 'user', content: `Hi${directive}` }],
    ...(stream && { stream: true, stream_options: { include_usage: true } })
  })
}

function costOf(input: number, output: number): bigint {
  return BigInt(input) * price.input + BigInt(output) * price.output
}

/** Compares the ledger with what the clients were told. */
function judge(
  folder: string,
  load: Load
): Pick<Tally, 'lost' | 'doubled' | 'unasked' | 'due' | 'charged' | 'verified'> {
  const database = new DatabaseSync(join(folder, 'sluice.db'), { readOnly: true })
  const statement = database.prepare("SELECT request_id AS id, part, amount FROM journal WHERE kind = 'settle'")
  statement.setReadBigInts(true)
  const charges = new Map<string, bigint[]>()
  const turns: bigint[] = []
  for (const { id, part, amount } of statement.all() as { id: string; part: string; amount: bigint }[]) {
    if (part !== '') turns.push(amount)
    else charges.set(id, [...(charges.get(id) ?? []), amount])
  }
  database.close()
  const sum = (amounts: Iterable<bigint>): bigint => [...amounts].reduce((total, amount) => total + amount, 0n)
  const missing = [...load.due].filter(([id, amount]) => charges.get(id)?.[0] !== amount).length
  const doubled = [...charges.values()].filter(({ length }) => length > 1).length
  return {
    lost: missing + Math.max(0, load.turns.length - turns.length),
    doubled,
    unasked:
      [...charges.keys()].filter((id) => !load.due.has(id)).length + Math.max(0, turns.length - load.turns.length),
    due: sum(load.due.values()) + sum(load.turns),
    charged: sum([...charges.values()].flat()) + sum(turns),
    verified: verify(folder)
  }
}

function verify(folder: string): boolean {
  const { spawnSync } = process.getBuiltinModule('node:child_process')
  const command = [join(root, 'core/main.ts'), 'ledger', 'verify', '--db', join(folder, 'sluice.db')]
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { encoding: 'utf8' })
  if (status !== 0) process.stderr.write(`${stdout}${stderr}`)
  return status === 0
}

if (process.argv[1] === import.meta.filename) {
  const [handOvers = 100, rate = 300] = process.argv.slice(2).map(Number)
  const half = Math.ceil(handOvers / 2)
  for (const [name, tls, count] of [
    ['clear text', false, half],
    ['TLS', true, handOvers - half]
  ] as const) {
    const { gapsMs, remarks, ...tally } = await restarts({ handOvers: count, rate, tls })
    const sorted = gapsMs.toSorted((one, other) => one - other)
    const gaps = { median: sorted[Math.floor(sorted.length / 2)], most: sorted.at(-1) }
    console.log(name, tally, 'milliseconds without an owner of the store:', gaps, remarks)
  }
}
