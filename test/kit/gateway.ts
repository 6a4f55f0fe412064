// Starts the real gateway for a test, in this process or in one of its own, from a complete gateway.yaml.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { startGateway as start } from '../../core/container.ts'
import type { Gateway, GatewayOptions } from '../../core/container.ts'
import type { LogFields, Logger } from '../../core/telling/log.ts'
import type { RequestRecord } from '../../core/store/requests.ts'
import { ask, connect } from './client.ts'
import type { Client, ReceivedReply, RequestParts } from './client.ts'
import { eventually } from './probe.ts'
import type { Upstream } from './upstream.ts'

const root = join(import.meta.dirname, '..', '..')

/** `SLUICE_WORKERS=2 npm test -- …` gives the gateways of tests so many workers, where a test does not say how many. */
const workersOfAll = Number(process.env['SLUICE_WORKERS'] ?? 1)

/** The key of a gateway whose test declares no keys. */
export const testKey = 'sk-test-000000000000000000000000'
/**
 * The model of a gateway with upstreams. It costs one dollar per million input tokens, and two per million output
 * tokens.
 */
export const testModel = 'test-model'
const price = { input: 1, output: 2 }

/**
 * Parts of gateway.yaml, nested as needed. Objects are merged into the complete file; other values replace what is
 * there.
 */
export type Overrides = Readonly<Record<string, unknown>>

/** What a gateway is started with, in addition to its file. */
export interface GatewaySetup {
  /**
   * The upstreams by channel name, in order of priority. All channels serve {@link testModel}. Without upstreams, the
   * channel `demo` leads to a simulator.
   */
  upstreams?: Readonly<Record<string, Upstream>>
  env?: NodeJS.ProcessEnv
  /** An empty folder for its files. Default: that of the test, and for a further gateway one within it. */
  folder?: string
  plugins?: GatewayOptions['plugins']
  operations?: GatewayOptions['operations']
  /** How many threads serve clients. Default: the one that does all. */
  workers?: number
}

/** What a gateway in a process of its own is started with. */
export interface ProcessSetup extends Omit<GatewaySetup, 'plugins' | 'operations' | 'workers'> {
  /** The program; the one that is tested unless it is another version. */
  main?: string
}

/** A gateway as a test uses it, wherever it runs. */
export interface TestGateway {
  readonly url: string
  readonly adminUrl: string
  /** The path of its gateway.yaml. */
  readonly file: string
  /** Writes the file again with other overrides. What the setup declares stays. */
  configure(overrides: Overrides): void
  /** Sends a request with {@link testKey} on a connection of its own. */
  ask(parts: RequestParts): Promise<ReceivedReply>
  /** Asks for a chat completion. The message is `Hi` unless the body says otherwise. */
  chat(body?: Record<string, unknown>): Promise<ReceivedReply>
  /** Opens a connection and sends a request for a chat completion. */
  openChat(body?: Record<string, unknown>): Promise<Client>
  /** The record of a reply in the request log, as soon as it is written. */
  record(reply: { headers: Record<string, string> }): Promise<RequestRecord>
  /** The JSON of a GET on the admin listener. */
  admin(path: string): Promise<any>
}

/** A gateway in this process. */
export interface LocalGateway extends TestGateway {
  readonly gateway: Gateway
  readonly lines: LogLine[]
}

/** A line that the gateway logged. */
export interface LogLine {
  level: string
  message: string
  fields: LogFields
}

/** What gateways in this process are started with as well. */
export const common: Pick<GatewayOptions, 'console'> = {}

/** Starts a gateway in this process. It is closed when the test is over. A string is used as the whole file. */
export async function gateway(
  t: Test,
  overrides: Overrides | string = {},
  setup: GatewaySetup = {}
): Promise<LocalGateway> {
  const file = gatewayFile(t, overrides, setup)
  const lines: LogLine[] = []
  const options: GatewayOptions = { ...common, config: file, log: recordingLog(lines) }
  if (setup.env) options.env = setup.env
  if (setup.plugins) options.plugins = setup.plugins
  if (setup.operations) options.operations = setup.operations
  if (setup.workers) options.workers = setup.workers
  const running = await start(options)
  t.teardown(() => running.close())
  return { ...speaker(t, file, setup, running.url, running.adminUrl ?? ''), gateway: running, lines }
}

/** A gateway in a process of its own, for tests of signals and crashes. */
export interface SpawnedGateway extends TestGateway {
  readonly process: ChildProcess
  /** The output so far, of the processes that took its place too. */
  readonly output: () => string
  /** The ids of all these processes, as their ready lines tell them. */
  readonly pids: () => number[]
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  /** Resolves when its standard streams are closed: then all these processes are gone. */
  readonly ended: Promise<void>
}

/**
 * Starts a gateway in a process of its own; resolves when it says that it is ready. It is killed when the test is over,
 * and so are the processes that took its place, which would keep its standard streams open.
 */
export async function spawnGateway(
  t: Test,
  overrides: Overrides | string = {},
  { main = join(root, 'core/main.ts'), ...setup }: ProcessSetup = {}
): Promise<SpawnedGateway> {
  const file = gatewayFile(t, overrides, setup)
  const child = spawn(process.execPath, [main, 'start', '--config', file], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...setup.env }
  })
  let output = ''
  const pids = (): number[] => [...output.matchAll(/"message":"ready".*"pid":(\d+)/g)].map(([, pid]) => Number(pid))
  t.teardown(() => {
    child.kill('SIGKILL')
    for (const pid of pids().slice(1)) end(pid)
  })
  const exited = once(child, 'exit').then(
    ([code, signal]) => ({ code, signal }) as { code: number | null; signal: NodeJS.Signals | null }
  )
  const ended = once(child, 'close').then(() => {})
  const [url, adminUrl] = await new Promise<string[]>((resolve, reject) => {
    const take = (text: Buffer): void => {
      output += text.toString()
      const addresses = /^.*\bready\b.*https?:\/\/.*\n/m.exec(output)?.[0].match(/https?:\/\/[\w.:[\]-]+/g)
      if (addresses) resolve(addresses)
    }
    child.stdout.on('data', take)
    child.stderr.on('data', take)
    void exited.then(() => reject(new Error(`the gateway did not start: ${output}`)))
  })
  return { ...speaker(t, file, setup, url!, adminUrl!), process: child, output: () => output, pids, exited, ended }
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

function speaker(t: Test, file: string, setup: GatewaySetup, url: string, adminUrl: string): TestGateway {
  const model = setup.upstreams ? testModel : 'demo'
  const headers = { authorization: `Bearer ${testKey}` }
  const chat = (body: Record<string, unknown> = {}): RequestParts => ({
    path: '/v1/chat/completions',
    headers,
    body: { model, messages: [{ role: 'user', content: 'Hi' }], ...body }
  })
  const admin = async (path: string): Promise<any> => {
    const reply = await ask(t, adminUrl, { path })
    if (reply.status !== 200) throw new Error(`GET ${path} on the admin listener: ${reply.status} ${reply.text}`)
    return reply.json()
  }
  return {
    url,
    adminUrl,
    file,
    configure: (overrides) => writeFileSync(file, fileText(file, overrides, setup)),
    ask: (parts) => ask(t, url, { ...parts, headers: { ...headers, ...parts.headers } }),
    chat: (body) => ask(t, url, chat(body)),
    async record({ headers: { 'x-request-id': id } }) {
      let found: RequestRecord | undefined
      await eventually(async () => {
        found = (await admin(`/admin/v1/requests?request_id=${id}`)).data[0]
        return found !== undefined
      })
      return found!
    },
    openChat: async (body) => (await connect(t, url)).send(chat(body)),
    admin
  }
}

/** The gateways of each test that were given no folder. */
const gateways = new WeakMap<Test, number>()

/** Writes the gateway.yaml of a test into its folder; that of each further gateway into one of its own within it. */
export function gatewayFile(t: Test, overrides: Overrides | string = {}, setup: GatewaySetup = {}): string {
  const file = join(setup.folder ?? folderOf(t), 'gateway.yaml')
  writeFileSync(file, fileText(file, overrides, setup))
  return file
}

function folderOf(t: Test): string {
  const number = (gateways.get(t) ?? 0) + 1
  gateways.set(t, number)
  if (number === 1) return t.testdir()
  const folder = join(t.testdirName, `gateway-${number}`)
  mkdirSync(folder)
  return folder
}

function fileText(file: string, overrides: Overrides | string, setup: GatewaySetup): string {
  const text = typeof overrides === 'string' ? overrides : configText(file, overrides, setup)
  // Plugins and operations of a test itself cannot be given to a thread.
  const alone = workersOfAll === 1 || setup.plugins || setup.operations || /^workers:/m.test(text)
  return alone ? text : `workers: ${workersOfAll}\n${text}`
}

function configText(file: string, overrides: Overrides, { upstreams }: GatewaySetup): string {
  const channels = upstreams
    ? Object.fromEntries(
        Object.entries(upstreams).map(([name, upstream], priority) => [name, channelTo(upstream, name, priority)])
      )
    : { demo: { protocol: 'simulator', models: { demo: 'demo' } } }
  return stringify(
    merge(
      {
        listen: { host: '127.0.0.1', port: 0 },
        admin: { host: '127.0.0.1', port: 0 },
        store: { sqlite: join(file, '..', 'sluice.db'), durability: 'process' },
        channels,
        models: { [upstreams ? testModel : 'demo']: { price } },
        tenants: { acme: {} },
        keys: [{ name: 'test', key: testKey, tenant: 'acme' }],
        chain: [
          { auth: {} },
          { quota: {} },
          { ratelimit: {} },
          { route: { repeats: 0 } },
          { 'protocol-translate': {} },
          { 'usage-meter': {} },
          { log: { sink: 'none' } }
        ]
      },
      overrides
    )
  )
}

function channelTo(upstream: Upstream, name: string, priority: number): unknown {
  return {
    protocol: 'openai',
    base_url: upstream.url.href,
    credential: `upstream-secret-of-${name}`,
    private: true,
    models: { [testModel]: testModel },
    priority
  }
}

function merge(base: unknown, over: unknown): unknown {
  if (!isMap(base) || !isMap(over)) return over
  const merged: Record<string, unknown> = { ...base }
  for (const [key, value] of Object.entries(over)) merged[key] = key in base ? merge(base[key], value) : value
  return merged
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A log whose lines a test can look at. */
export function recordingLog(lines: LogLine[], always: LogFields = {}): Logger {
  const write =
    (level: string) =>
    (message: string, fields?: LogFields): void => {
      lines.push({ level, message, fields: { ...always, ...fields } })
    }
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    child: (fields) => recordingLog(lines, { ...always, ...fields })
  }
}
