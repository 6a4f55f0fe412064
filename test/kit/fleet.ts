// Gateways that share a book in PostgreSQL and limits in Redis, each a process that can be killed, paused and started
// again, with HAProxy before them where a test wants it.
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { haproxyConfig } from '../../.tools/cluster/haproxy.ts'
import type { Member } from '../../.tools/cluster/haproxy.ts'
import { launch } from '../money/process.ts'
import type { Launch, Running } from '../money/process.ts'
import { ask } from '../money/rig.ts'
import type { More, Seen } from '../money/rig.ts'
import { DatabaseProxy } from './database-proxy.ts'
import { freePort } from './ports.ts'
import { postgresMissing, Postgres } from './postgres.ts'
import type { PostgresOptions } from './postgres.ts'
import { eventually } from './probe.ts'
import { lacks, program } from './programs.ts'
import { redisMissing, RedisServer } from './redis.ts'

/** Why tests of fleets are skipped; false when they are not. */
export const fleetMissing = postgresMissing || redisMissing
/** Why those with HAProxy are. */
export const balancedMissing = fleetMissing || lacks('haproxy')

/** Who ends with a test, or with a script. */
export type Owner = Pick<Test, 'teardown'>

/** A process that did not run, or stood still, from one moment to another, by `performance.now()`. */
export interface Gap {
  readonly from: number
  to: number
}

/** One gateway. Its ports and its folder stay the same at each start. */
export class FleetNode {
  readonly name: string
  readonly port: number
  readonly adminPort: number
  /** When it was paused: what it had under way then may have been ended by others. */
  readonly pauses: Gap[] = []
  readonly #owner: Owner
  readonly #folder: string
  readonly #config: (node: FleetNode) => More
  readonly #launch: Launch
  #running: Running | undefined

  constructor(
    owner: Owner,
    name: string,
    ports: readonly [number, number],
    folder: string,
    config: (node: FleetNode) => More,
    launch: Launch
  ) {
    this.name = name
    ;[this.port, this.adminPort] = ports
    this.#owner = owner
    this.#folder = folder
    this.#config = config
    this.#launch = launch
    mkdirSync(folder, { recursive: true })
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  get adminUrl(): string {
    return `http://127.0.0.1:${this.adminPort}`
  }

  /** The folder that is this node's alone. */
  get folder(): string {
    return join(this.#folder, 'data')
  }

  get alive(): boolean {
    return this.#running?.alive === true
  }

  /** What its present process has written. */
  get output(): string {
    return this.#running?.output ?? ''
  }

  /**
   * Starts it; resolves when it is ready.
   * @throws Error when it ends before it is ready, with what it wrote
   */
  async start(): Promise<void> {
    this.#running = await launch(this.#owner, this.#folder, this.#config(this), this.#launch)
  }

  /** Ends it with a signal, and waits until it is gone. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (this.alive) await this.#running!.end(signal)
  }

  /** Sends it a signal, and waits for nothing. */
  signal(signal: NodeJS.Signals): void {
    process.kill(this.#running!.pid, signal)
  }

  /** Stops it where it is, and lets it go on after some milliseconds. */
  async pause(ms: number): Promise<void> {
    const gap: Gap = { from: performance.now(), to: Infinity }
    this.pauses.push(gap)
    process.kill(this.#running!.pid, 'SIGSTOP')
    await sleep(ms)
    if (this.alive) process.kill(this.#running!.pid, 'SIGCONT')
    gap.to = performance.now()
  }

  /** The status and the body of a GET on its admin listener. */
  async admin(path: string): Promise<{ status: number; body: any }> {
    const reply = await fetch(`${this.adminUrl}${path}`, { signal: AbortSignal.timeout(60_000) })
    const text = await reply.text()
    return { status: reply.status, body: text.startsWith('{') ? JSON.parse(text) : text }
  }
}

/** What a fleet is made of. */
export interface FleetOptions {
  /** Default: three. */
  readonly nodes?: number
  /** Sections of gateway.yaml beside `listen`, `admin` and `store`. */
  readonly config: More
  readonly postgres?: PostgresOptions
  /** The URLs of the database for the gateways. Default: its socket. */
  readonly database?: (server: Postgres, proxy: DatabaseProxy, direct: string) => string | object
  /** What is added to the section `store` of a node. */
  readonly store?: (index: number) => More
  /** Settings of one node alone. */
  readonly launch?: (index: number) => Launch
  /** Starts HAProxy before them. */
  readonly balanced?: boolean
}

/** All of them, with their servers. */
export class Fleet {
  readonly nodes: readonly FleetNode[]
  readonly postgres: Postgres
  readonly redis: RedisServer
  /** Before PostgreSQL; in use where `database` says so. */
  readonly proxy: DatabaseProxy
  /** The book, as the administrator reaches it. It changes when a standby takes over. */
  direct: string
  /** Where HAProxy takes clients; else the first node. */
  readonly url: string

  private constructor(parts: Pick<Fleet, 'nodes' | 'postgres' | 'redis' | 'proxy' | 'direct' | 'url'>) {
    this.nodes = parts.nodes
    this.postgres = parts.postgres
    this.redis = parts.redis
    this.proxy = parts.proxy
    this.direct = parts.direct
    this.url = parts.url
  }

  /** Starts servers and gateways; all of them end with the owner. */
  static async start(t: Owner, options: FleetOptions): Promise<Fleet> {
    const fleet = await Fleet.prepare(t, options)
    // The first one brings the schema up to date.
    await fleet.nodes[0]!.start()
    await Promise.all(fleet.nodes.slice(1).map((node) => node.start()))
    if (options.balanced) await eventually(() => answers(fleet.url), 60_000)
    return fleet
  }

  /** Starts the servers, and no gateway. */
  static async prepare(t: Owner, options: FleetOptions): Promise<Fleet> {
    const home = mkdtempSync(join(tmpdir(), 'sluice-fleet-'))
    t.teardown(() => rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }))
    const [postgres, redis] = await Promise.all([Postgres.start(t, options.postgres), RedisServer.start(t)])
    const direct = await postgres.database()
    const proxy = await DatabaseProxy.start(t, postgres.socket)
    const config = (node: FleetNode): More => ({
      ...options.config,
      listen: { host: '127.0.0.1', port: node.port },
      admin: { host: '127.0.0.1', port: node.adminPort },
      store: {
        postgres: options.database?.(postgres, proxy, direct) ?? direct,
        // A busy machine has time to answer.
        redis: { url: redis.url, command_timeout: '2s' },
        folder: node.folder,
        durability: 'process',
        ...options.store?.(nodes.indexOf(node))
      }
    })
    const nodes: FleetNode[] = []
    for (let index = 0; index < (options.nodes ?? 3); index++) {
      const name = `node-${index + 1}`
      const ports = [await freePort(), await freePort()] as const
      nodes.push(new FleetNode(t, name, ports, join(home, name), config, options.launch?.(index) ?? {}))
    }
    const url = options.balanced ? await balance(t, home, nodes) : nodes[0]!.url
    return new Fleet({ nodes, postgres, redis, proxy, direct, url })
  }

  /** The rows of a statement on the book. */
  sql(text: string): Promise<any[]> {
    return this.postgres.sql(text, this.direct)
  }

  /** The whole journal. Amounts are bigints. */
  async journal(): Promise<FleetEntry[]> {
    const rows = await this.sql('select * from sluice.journal order by ts_ms, node, epoch, seq')
    return rows.map((row) => ({
      ...row,
      amount: BigInt(row.amount),
      reserved: BigInt(row.reserved),
      usage: row.usage_json === null ? undefined : JSON.parse(row.usage_json)
    }))
  }

  /** Resolves when no hold is open in the book, except those that outlive their requests where `detached` is true. */
  async noHolds(withinMs: number, detached = false): Promise<void> {
    const open = `select request_id from sluice.hold ${detached ? 'where lease_until is null' : ''}`
    await eventually(async () => (await this.sql(open)).length === 0, withinMs)
  }

  /** The slots that Redis has for requests, by their keys; those whose lease has ended are left out. */
  async slots(): Promise<Record<string, number>> {
    const found: Record<string, number> = {}
    const [seconds, micros] = (await this.redis.run(['TIME'])) as [string, string]
    const now = Number(seconds) * 1_000_000 + Number(micros)
    for (const key of (await this.redis.run(['KEYS', '*'])) as string[]) {
      if ((await this.redis.run(['TYPE', key])) !== 'zset' || key.endsWith('nodes')) continue
      const count = Number(await this.redis.run(['ZCOUNT', key, String(now), '+inf']))
      if (count > 0) found[key] = count
    }
    return found
  }
}

/** Asks, and again while PostgreSQL is silent for longer than gateways wait: a busy machine makes it so. */
export async function askPatiently(...asked: Parameters<typeof ask>): Promise<Seen> {
  for (let tries = 0; ; tries++) {
    const seen = await ask(...asked)
    if (seen.code !== 'billing_unavailable' || tries === 100) return seen
    await sleep(200)
  }
}

/** A row of the journal, as far as tests look at it. */
export interface FleetEntry {
  node: string
  epoch: number
  kind: string
  request_id: string
  part: string
  class: string
  amount: bigint
  reserved: bigint
  source: string | null
  model: string | null
  usage: Record<string, number> | undefined
}

/** Starts HAProxy as it is shipped, before nodes that need not run yet. Returns its URL. */
export async function balance(t: Owner, home: string, nodes: readonly Member[]): Promise<string> {
  const port = await freePort()
  const file = join(home, 'haproxy.cfg')
  writeFileSync(file, haproxyConfig(port, nodes))
  const balancer = spawn(program('haproxy')!, ['-db', '-f', file], { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  balancer.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
  t.teardown(() => balancer.kill('SIGKILL'))
  await eventually(async () => {
    if (balancer.exitCode !== null) throw new Error(`HAProxy did not start: ${said}`)
    return takes(port)
  }, 30_000)
  return `http://127.0.0.1:${port}`
}

function takes(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => (socket.destroy(), resolve(true))).on('error', () => resolve(false))
  })
}

/** Whether a gateway answers, whatever it says. */
async function answers(url: string): Promise<boolean> {
  const { status } = await fetch(`${url}/v1/models`)
  return status !== 503
}
