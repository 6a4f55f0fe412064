// Runs a chain of plugins in the real engine with real upstreams, but without a listener, a database or a process of
// its own.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import { loadConfig } from '../../config/load.ts'
import { BodyMemory } from '../../core/bodies/body-memory.ts'
import { checkOrder, compileChain } from '../../core/exchange/state/chain.ts'
import type { BodySink, BodySource } from '../../core/clients/body-source.ts'
import type { Client } from '../../core/clients/client.ts'
import type { HeaderLines } from '../../core/wire/response-head.ts'
import { definePlugin } from '../../core/contract/contract.ts'
import type { AnySlot, ChannelHealth, Exchange, Outcome, Plugin } from '../../core/contract/contract.ts'
import { BackgroundWork } from '../../core/exchange/background/background.ts'
import { Engine } from '../../core/exchange/engine.ts'
import { operations } from '../../core/operations/index.ts'
import { Operations } from '../../core/operations/operations.ts'
import { openCatalogue } from '../../core/preparation.ts'
import { Generations, Shared } from '../../core/program/generation.ts'
import type { GenerationParts } from '../../core/program/generation.ts'
import { contextOf } from '../../core/program/plugin-context.ts'
import type { LogFields, Logger } from '../../core/telling/log.ts'
import type { Answers, KeptAnswer } from '../../core/store/answers.ts'
import { MemoryCache } from '../../core/store/memory/cache.ts'
import { MemoryLimits } from '../../core/store/memory/limits.ts'
import { MemoryClaims } from '../../core/store/memory/claims.ts'
import { SecretBook } from '../../core/store/embedded/book/secret-book.ts'
import type { Ledger } from '../../core/store/ledger.ts'
import type { Limits } from '../../core/store/limits.ts'
import type { Services } from '../../core/store/services.ts'
import { Room } from '../../core/store/embedded/book/room.ts'
import type { Works } from '../../core/store/works.ts'
import type { RequestLog, RequestRecord } from '../../core/store/requests.ts'
import { Transports } from '../../core/transport/transports.ts'
import { SealedVault } from '../../core/store/sealed/vault.ts'
import { Watchdog } from '../../core/watchdog/watchdog.ts'
import { plugins } from '../../plugins/index.ts'
import { MemoryDocuments } from './documents.ts'
import { TestLedger } from './ledger.ts'
import { TestMetrics } from './metrics.ts'
import { TestRoutes } from './routes.ts'

/** The sections of a gateway.yaml as plain data. {@link Workbench.open} supplies those that are absent. */
export interface Sections {
  channels?: Record<string, unknown>
  models?: Record<string, unknown>
  tenants?: Record<string, unknown>
  keys?: unknown[]
  chain?: readonly unknown[]
  limits?: Record<string, unknown>
}

/** What a chain uses in addition to its configuration. */
export interface Surroundings {
  /** Plugins that the chain may name, in addition to those of plugins/index.ts. */
  more?: readonly Plugin[]
  /** By default, limits in memory, as in a real gateway. */
  limits?: Limits
  /** By default {@link Workbench.ledger}, which records what it was asked. */
  ledger?: Ledger
}

/** A request to send. By default, a chat request with the key `sk-test-key`. */
export interface Ask {
  method?: string
  target?: string
  headers?: Record<string, string | string[]>
  /** A string or stream is sent as it is, anything else as JSON. */
  body?: unknown
}

/** The result of a request, and what plugins saw of it. */
export interface Answer {
  status: number
  /** Lower-case names. */
  headers: Record<string, string>
  body: string
  /** Whether the answer ended properly. */
  complete: boolean
  exchange: Exchange<AnySlot>
  outcome: Outcome
}

/** A request under way. */
export interface Pending {
  client: TestClient
  answer: Promise<Answer>
}

/** A request body that reads from a stream. */
function sourceOf(stream: Readable): BodySource {
  let sink: BodySink | undefined
  const over = (): BodySink | undefined => {
    const told = sink
    sink = undefined
    return told
  }
  return {
    receive: (receiver) => {
      sink = receiver
      stream.on('data', (chunk: Buffer) => sink?.data(chunk))
      stream
        .on('end', () => over()?.end())
        .on('error', () => over()?.lost())
        .on('close', () => over()?.lost())
    },
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    abandon: () => {
      sink = undefined
      stream.pause()
    }
  }
}

/** A client in memory. */
export class TestClient implements Client {
  origin: string | undefined = undefined
  gone = false
  headSent = false
  status = 0
  headers: Record<string, string> = {}
  complete = false
  onDrain: (() => void) | null = null
  onGone: (() => void) | null = null
  readonly chunks: Buffer[] = []
  readonly over: Promise<void>
  /** Resolves when the first byte of a streamed answer has arrived. */
  readonly began: Promise<void>
  readonly #body: Readable
  #over!: () => void
  #begin!: () => void

  constructor(body: Readable) {
    this.#body = body
    this.over = new Promise((resolve) => (this.#over = resolve))
    this.began = new Promise((resolve) => (this.#begin = resolve))
  }

  reply(status: number, headers: HeaderLines, body: Buffer): void {
    if (this.gone) return this.#over()
    this.head(status, headers)
    this.end(body)
  }

  head(status: number, headers: HeaderLines): void {
    if (this.gone) return
    this.headSent = true
    this.status = status
    const pairs = headers.pairs()
    for (let i = 0; i < pairs.length; i += 2) this.headers[pairs[i]!.toLowerCase()] = pairs[i + 1]!
  }

  write(bytes: Buffer): boolean {
    if (!this.gone) this.chunks.push(bytes)
    this.#begin()
    return true
  }

  end(bytes?: Buffer): void {
    if (bytes) this.write(bytes)
    this.complete = !this.gone
    this.#over()
  }

  cut(): void {
    this.gone = true
    this.#over()
  }

  /** Closes the connection from the client's side. */
  leave(): void {
    this.gone = true
    this.#body.destroy()
    this.onGone?.()
  }

  get text(): string {
    return Buffer.concat(this.chunks).toString('utf8')
  }
}

/** An operational log line. */
export interface LogLine {
  level: 'debug' | 'info' | 'warn' | 'error'
  message: string
  fields: LogFields
}

function testLog(lines: LogLine[], bound: LogFields = {}): Logger {
  const at =
    (level: LogLine['level']) =>
    (message: string, fields: LogFields = {}) =>
      void lines.push({ level, message, fields: { ...bound, ...fields } })
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => testLog(lines, { ...bound, ...fields })
  }
}

/** Stored answers, in memory. */
class TestAnswers implements Answers {
  readonly #kept = new Map<string, KeptAnswer>()

  find(id: Buffer): Promise<KeptAnswer | undefined> {
    return Promise.resolve(this.#kept.get(id.toString('hex')))
  }

  put(id: Buffer, _tenant: string, answer: KeptAnswer): Promise<void> {
    this.#kept.set(id.toString('hex'), answer)
    return Promise.resolve()
  }
}

const gone = Promise.resolve()
/** A store for work that keeps nothing: work is tested with the whole gateway. */
const noWorks: Works = {
  errand: () => undefined,
  told: () => undefined,
  places: { take: () => undefined, leave: () => {} },
  running: 0,
  runningOf: () => 0,
  open: () => [],
  current: () => undefined,
  at: () => undefined,
  put: () => gone,
  note: () => {},
  find: () => Promise.resolve(undefined),
  list: () => Promise.resolve({ page: [], more: false }),
  forget: () => gone,
  oldest: () => Promise.resolve([]),
  flushed: () => Promise.resolve(true),
  room: new Room([]),
  expired: () => Promise.resolve([]),
  sweep: () => Promise.resolve(0),
  keepResult: () => gone,
  result: () => Promise.resolve(undefined)
}

/**
 * The default chain of gateway.yaml, without lines on stdout, and without repeated attempts at a channel, so that tests
 * see each failure.
 */
export const defaultChain: readonly Record<string, object>[] = [
  { auth: {} },
  { quota: {} },
  { ratelimit: {} },
  { route: { repeats: 0 } },
  { 'protocol-translate': {} },
  { 'usage-meter': {} },
  { log: { sink: 'none' } }
]

const testKey = { name: 'test-key', key: 'sk-test-key', tenant: 'acme' }

/** Runs requests through a chain. Everything that it opens is closed when the test is over. */
export class Workbench {
  readonly ledger = new TestLedger()
  readonly limits: Limits
  readonly #book: Ledger
  readonly records: RequestRecord[] = []
  readonly documents = new MemoryDocuments()
  readonly routes = new TestRoutes()
  readonly cache = new MemoryCache(64 * 1024 * 1024)
  readonly answers = new TestAnswers()
  readonly metrics = new TestMetrics()
  readonly log: LogLine[] = []
  readonly shared = new Shared(testLog(this.log))
  readonly #file: string
  readonly #plugins: ReadonlyMap<string, Plugin>
  readonly #settled = new WeakMap<object, { exchange: Exchange; outcome: Outcome }>()
  readonly #secrets = new SecretBook(this.documents)
  readonly #claims = new MemoryClaims()
  #generations!: Generations
  #engine!: Engine

  get #services(): Services {
    const requests: RequestLog = {
      append: (record) => void this.records.push(record),
      list: () => Promise.resolve({ data: this.records, next: null })
    }
    return {
      documents: this.documents,
      ledger: this.#book,
      limits: this.limits,
      secrets: this.#secrets,
      requests,
      works: noWorks,
      vault: new SealedVault(noWorks, { key: '', keep: 1, largest: 1, of_tenant: 2 ** 28, size: 2 ** 30 }),
      cache: this.cache,
      answers: this.answers,
      claims: this.#claims,
      routes: this.routes
    }
  }

  private constructor(file: string, { more = [], limits = new MemoryLimits(), ledger }: Surroundings) {
    const probe = definePlugin({
      name: 'probe',
      summary: 'Tells the test how exchanges ended.',
      options: {},
      setup: () => ({
        onSettled: (exchange, outcome) => void this.#settled.set(exchange.request.headers, { exchange, outcome })
      })
    })
    this.#file = file
    this.#plugins = new Map([...plugins, ...[...more, probe].map((plugin): [string, Plugin] => [plugin.name, plugin])])
    this.limits = limits
    this.#book = ledger ?? this.ledger
  }

  static async open(t: Test, sections: Sections, surroundings: Surroundings = {}): Promise<Workbench> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
    t.teardown(() => rmSync(folder, { recursive: true }))
    const bench = new Workbench(join(folder, 'gateway.yaml'), surroundings)
    const generation = await bench.#generation(sections)
    const transport = new Transports()
    const log = testLog(bench.log)
    bench.#generations = new Generations(generation)
    const services = bench.#services
    const background = new BackgroundWork({
      services,
      generations: bench.#generations,
      transport,
      kinds: new Map(),
      log
    })
    bench.#engine = new Engine({
      operations: new Operations(operations),
      services,
      background,
      generations: bench.#generations,
      transport,
      watchdog: new Watchdog(),
      memory: new BodyMemory(64 * 1024 * 1024),
      log
    })
    t.teardown(async () => {
      await bench.#generations.close()
      await transport.close()
    })
    return bench
  }

  /** The health of the channels, as operators see it. */
  health(): Readonly<Record<string, ChannelHealth>> {
    return this.#generations.current.chain.reportHealth()
  }

  /** Puts another configuration into use at once. Exchanges under way keep the old one. */
  async reload(sections: Sections): Promise<void> {
    this.#generations.replace(await this.#generation(sections))
  }

  /** Ends the last generation, as at the end of the process. */
  close(): Promise<void> {
    return this.#generations.close()
  }

  async send(ask: Ask = {}): Promise<Answer> {
    return this.start(ask).answer
  }

  start({ method = 'POST', target = '/v1/chat/completions', headers = {}, body = {} }: Ask = {}): Pending {
    const text = typeof body === 'string' ? body : JSON.stringify({ model: 'demo', messages: [], ...(body as object) })
    const content = body instanceof Readable ? body : Readable.from([Buffer.from(text)])
    const client = new TestClient(content)
    const all = { authorization: 'Bearer sk-test-key', ...headers }
    const finished = async (): Promise<Answer> => {
      await client.over
      await turn()
      const { exchange, outcome } = this.#settled.get(all)!
      return {
        status: client.status,
        headers: client.headers,
        body: client.text,
        complete: client.complete,
        exchange,
        outcome
      }
    }
    this.#engine.handle({
      method,
      target,
      headers: all,
      remoteAddress: '127.0.0.1',
      httpVersion: '1.1',
      body: sourceOf(content),
      client
    })
    return { client, answer: finished() }
  }

  get running(): number {
    return this.#engine.running
  }

  async #generation(sections: Sections): Promise<GenerationParts> {
    const { chain = defaultChain } = sections
    const file = {
      models: { demo: { price: { input: 1, output: 2 } } },
      tenants: { acme: {} },
      keys: [testKey],
      ...sections,
      chain: [...chain, 'probe']
    }
    writeFileSync(this.#file, JSON.stringify(file))
    const { config, problems } = loadConfig(this.#file, {
      env: {},
      simulatorUrl: new URL('http://127.0.0.1:9/v1'),
      plugins: this.#plugins
    })
    if (!config) throw new Error(problems.map(({ place, message }) => `${place}: ${message}`).join('\n'))
    const named = config.chain.map((entry) => ({ ...entry, place: entry.plugin }))
    const misplaced = checkOrder(named, this.#plugins)
    if (misplaced.length > 0) throw new Error(misplaced.map(({ place, message }) => `${place}: ${message}`).join('\n'))
    const user = this.shared.user()
    const services = this.#services
    const { catalogue } = openCatalogue(config, services)
    try {
      const parts = { catalogue, services, metrics: this.metrics, log: testLog(this.log), shared: user }
      const compiled = await compileChain(config.chain, this.#plugins, (plugin) => contextOf(plugin, parts))
      return { config, catalogue, chain: compiled, drop: user.drop }
    } catch (error) {
      await user.drop()
      throw error
    }
  }
}

/** A key of the test's tenant, for the section `keys`. */
export function key(more: Record<string, unknown>): Record<string, unknown> {
  return { ...testKey, ...more }
}

/** A channel that leads to a test's upstream, for the section `channels`. */
export function channelTo(upstream: { url: URL }, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { protocol: 'openai', base_url: upstream.url.href, private: true, models: { demo: 'demo' }, ...more }
}

/** A whole chat answer that used this many tokens. */
export function chatAnswer(promptTokens = 10, completionTokens = 5): object {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'demo',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens
    }
  }
}

/** The events of a streamed chat answer with its usage, without `[DONE]`. */
export function chatEvents(words = 3, promptTokens = 10): object[] {
  const event = (more: object): object => ({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'demo',
    choices: [],
    ...more
  })
  const choice = (delta: object, finish: string | null = null): object =>
    event({ choices: [{ index: 0, delta, finish_reason: finish }] })
  return [
    choice({ role: 'assistant', content: '' }),
    ...Array.from({ length: words }, (_, i) => choice({ content: `word${i} ` })),
    choice({}, 'stop'),
    event({ usage: { prompt_tokens: promptTokens, completion_tokens: words, total_tokens: promptTokens + words } })
  ]
}
