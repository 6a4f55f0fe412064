// Tries channels: sends each a small real request through the code that requests of clients go through.
import { compileChain } from '../exchange/state/chain.ts'
import { Engine } from '../exchange/engine.ts'
import type { EngineParts } from '../exchange/engine.ts'
import type { Generation } from '../exchange/state/generation.ts'
import { SilentClient, sourceOf } from '../clients/silent-client.ts'
import type { Catalogue, Channel } from '../catalogue/catalogue.ts'
import { definePlugin } from '../contract/contract.ts'
import type { Exchange, Outcome, Plugin } from '../contract/contract.ts'
import { wordsOf } from '../contract/record.ts'
import { GatewayError } from '../errors.ts'
import { costOf, inForce } from '../money/price.ts'
import type { Usage } from '../money/usage.ts'
import type { PluginMetrics } from '../telling/metrics.ts'
import { contextOf } from './plugin-context.ts'
import type { Shared, SharedUser } from './generation.ts'
import { endpointOf, probeRequests } from './probe-requests.ts'
import type { ProbedEndpoint } from './probe-requests.ts'

/** The memory for the bodies of requests by which channels are tried, in bytes. */
export const probeMemory = 4 * 1024 * 1024

/** The result of one request. Times are in milliseconds; null where nothing came. */
export interface ProbeResult {
  readonly endpoint: ProbedEndpoint
  readonly model: string
  readonly ok: boolean
  /** The status of the upstream's answer; null when it did not answer. */
  readonly status: number | null
  /** The code of the error, and what the upstream said, without secrets; null when all went well. */
  readonly error: { readonly code: string; readonly said: string } | null
  readonly firstByteMs: number | null
  readonly durationMs: number
  /** What the upstream counted, or what was estimated; null when nothing is known. */
  readonly usage: Readonly<Usage> | null
  /** In nano-dollars, at the model's price of now; null without usage or price. Nobody is charged. */
  readonly cost: bigint | null
}

/** What channels are tried with. */
export interface ProberParts extends Omit<EngineParts, 'generations'> {
  /** The configuration and the catalogue in use, which stay whole until `leave` is called. */
  enter(): Pick<Generation, 'config' | 'catalogue' | 'leave'>
  /** The plugins that the chain may name. */
  plugins(): ReadonlyMap<string, Plugin>
  metrics: PluginMetrics
  shared: Shared
}

/** How many tests of channels may be under way at a time. */
const mostTests = 8
/** When somebody who came when there were as many may ask again, in milliseconds. */
const testAgainMs = 5000

/** The plugins of the chain that requests of probes pass, below the one that names the channel. */
const passed = ['protocol-translate', 'usage-meter']

/** Tries the channels of one gateway. */
export class Prober {
  readonly #parts: ProberParts
  /** One for each request that is under way. */
  readonly #engines = new Set<Engine>()
  #tests = 0

  constructor(parts: ProberParts) {
    this.#parts = parts
  }

  /**
   * The endpoints and models to try a channel with: one model for each endpoint that its models look to be for, or the
   * ones that are given.
   */
  plan(channel: Channel, model?: string, endpoint?: ProbedEndpoint): { endpoint: ProbedEndpoint; model: string }[] {
    const models = model === undefined ? [...channel.models.keys()] : [model]
    const first = new Map<ProbedEndpoint, string>()
    for (const name of models) {
      const fits = endpoint ?? endpointOf(name, channel)
      if (!first.has(fits)) first.set(fits, name)
    }
    return [...first].map(([fits, name]) => ({ endpoint: fits, model: name }))
  }

  /**
   * Sends a channel the requests that {@link plan} names, one after another.
   * @throws GatewayError `rate_limit_concurrency` when too many tests are under way; and as {@link try} does
   */
  async test(channel: Channel, model?: string, endpoint?: ProbedEndpoint): Promise<ProbeResult[]> {
    if (this.#tests >= mostTests)
      throw new GatewayError(
        'rate_limit_concurrency',
        `${mostTests} tests of channels are under way: ask again when one has ended.`,
        { shownCode: 'too_many_tests', retryAfterMs: testAgainMs }
      )
    this.#tests++
    try {
      const results: ProbeResult[] = []
      for (const one of this.plan(channel, model, endpoint))
        results.push(await this.try(channel, one.endpoint, one.model))
      return results
    } finally {
      this.#tests--
    }
  }

  /**
   * Tests channels, as many at a time as may be; the results are in the order of the channels.
   * @throws GatewayError as {@link test} does
   */
  async testAll(channels: readonly Channel[]): Promise<ProbeResult[][]> {
    const results: ProbeResult[][] = []
    const waiting = channels.entries()
    const testWaiting = async (): Promise<void> => {
      for (const [index, channel] of waiting) results[index] = await this.test(channel)
    }
    await Promise.all(Array.from({ length: mostTests }, testWaiting))
    return results
  }

  /**
   * Sends one request to a channel, also to one that is switched off.
   * @throws Error when a plugin that it passes cannot be set up
   */
  async try(channel: Channel, endpoint: ProbedEndpoint, model: string): Promise<ProbeResult> {
    const present = this.#parts.enter()
    const user = this.#parts.shared.user()
    try {
      return await this.#tryIn(present, user, channel, endpoint, model)
    } finally {
      await user.drop()
      present.leave()
    }
  }

  /** Ends the requests that are under way, whose results say so. */
  async close(): Promise<void> {
    for (const engine of this.#engines) engine.stop()
    await Promise.all(Array.from(this.#engines, (engine) => engine.idle()))
  }

  async #tryIn(
    { config, catalogue: present }: Pick<Generation, 'config' | 'catalogue'>,
    user: SharedUser,
    channel: Channel,
    endpoint: ProbedEndpoint,
    model: string
  ): Promise<ProbeResult> {
    const { services, metrics, log, plugins } = this.#parts
    const catalogue: Catalogue = { ...present, switched: new Map() }
    const settled = Promise.withResolvers<{ exchange: Exchange; outcome: Outcome }>()
    const naming = namingOf(channel, (exchange, outcome) => settled.resolve({ exchange, outcome }))
    const known = new Map([...plugins(), [naming.name, naming]])
    const entries = config.chain.filter(({ plugin }) => passed.includes(plugin))
    const context = (plugin: Plugin): ReturnType<typeof contextOf> =>
      contextOf(plugin, { services, metrics, log, catalogue, shared: user })
    const chain = await compileChain(
      [{ plugin: naming.name, options: {}, place: config.file }, ...entries],
      known,
      context
    )
    const generation: Generation = { config, catalogue, chain, leave: () => {} }
    const engine = new Engine({ ...this.#parts, generations: { current: generation, enter: () => generation } })
    this.#engines.add(engine)
    try {
      const { path, body } = probeRequests[endpoint](model)
      const bytes = Buffer.from(JSON.stringify(body))
      engine.handle({
        method: 'POST',
        target: path,
        headers: { 'content-type': 'application/json', 'content-length': String(bytes.length) },
        remoteAddress: '127.0.0.1',
        httpVersion: '1.1',
        body: sourceOf(bytes),
        client: new SilentClient()
      })
      const { exchange, outcome } = await settled.promise
      await engine.idle()
      return resultOf(endpoint, model, exchange, outcome, catalogue)
    } finally {
      this.#engines.delete(engine)
      await chain.dispose()
    }
  }
}

/** A plugin that names the channel, and tells how the exchange ended. */
function namingOf(channel: Channel, tell: (exchange: Exchange, outcome: Outcome) => void): Plugin {
  return definePlugin({
    name: 'probe',
    summary: 'Sends a request to one channel alone.',
    options: {},
    setup: () => ({
      onCandidates: (_exchange, candidates) =>
        candidates.keep((other) => other.name === channel.name, 'another channel is tried'),
      selectChannel: (_exchange, failures, candidates) => (failures.length === 0 ? candidates.channels[0] : undefined),
      onSettled: (exchange, outcome) => tell(exchange, outcome)
    })
  })
}

function resultOf(
  endpoint: ProbedEndpoint,
  model: string,
  { attempts }: Exchange,
  { kind, error, durationMs }: Outcome,
  { models }: Catalogue
): ProbeResult {
  const attempt = attempts.at(-1)
  const failure = attempt?.error ?? error
  const usage = attempt?.usage?.usage
  const price = inForce(models.get(model)?.prices ?? [], Date.now())?.price
  return {
    endpoint,
    model,
    ok: kind === 'completed',
    status: attempt?.status ?? null,
    error: failure ? { code: failure.code, said: failure.details.said?.message ?? wordsOf(failure) } : null,
    firstByteMs: attempt?.firstByteAt === undefined ? null : attempt.firstByteAt - attempt.startedAt,
    durationMs,
    usage: usage ?? null,
    cost: usage && price ? costOf(usage, price) : null
  }
}
