// A configuration made live: its chain and catalogue, kept until the last exchange that began with it has ended.
import type { Catalogue } from '../catalogue/catalogue.ts'
import type { Chain } from '../exchange/chain.ts'
import type { Generation, GenerationSource } from '../exchange/generation.ts'
import type { Logger } from '../telling/log.ts'
import type { Config } from '../catalogue/settings.ts'
import type { Awaitable, Plugin, PluginContext, SharedKey } from '../contract/contract.ts'

interface Entry {
  value: unknown
  users: number
  dispose(): Awaitable<void>
}

/** What one generation has of the {@link Shared} values. */
export interface SharedUser {
  /** For one plugin: keys are its own. */
  share(plugin: Plugin): PluginContext['share']
  /** The generation is over. What was disposed and failed is logged. */
  drop(): Promise<void>
}

/** Values kept across generations, each for as long as some generation uses it. */
export class Shared {
  readonly #values = new Map<string, Entry>()
  readonly #log: Logger

  constructor(log: Logger) {
    this.#log = log
  }

  user(): SharedUser {
    const used = new Map<string, Entry>()
    return {
      share:
        ({ name }) =>
        (key, create, dispose) => {
          const place = placeOf(name, key)
          let entry = this.#values.get(place)
          if (!entry) {
            const value = create()
            this.#values.set(place, (entry = { value, users: 0, dispose: () => dispose?.(value) }))
          }
          if (!used.has(place)) {
            used.set(place, entry)
            entry.users++
          }
          return entry.value as ReturnType<typeof create>
        },
      drop: async () => {
        const over = [...used].filter(([, entry]) => --entry.users === 0)
        used.clear()
        for (const [place] of over) this.#values.delete(place)
        for (const [place, entry] of over.reverse()) {
          try {
            await entry.dispose()
          } catch (error) {
            this.#log.error('what a plugin shares could not be disposed', {
              plugin: place.split('/', 1)[0],
              error: String(error)
            })
          }
        }
      }
    }
  }
}

/** Names of plugins have no slash. */
function placeOf(plugin: string, { name }: SharedKey<unknown>): string {
  return `${plugin}/${name}`
}

/** The parts of a generation about to go live; `drop` gives back what it shares. */
export interface GenerationParts {
  config: Config
  catalogue: Catalogue
  chain: Chain
  drop(): Promise<void>
}

class LiveGeneration implements Generation {
  readonly config: Config
  readonly catalogue: Catalogue
  readonly chain: Chain
  /** Resolves when it is disposed. */
  readonly gone: Promise<void>
  readonly #drop: () => Promise<void>
  #users = 0
  #retired = false
  #done!: () => void

  constructor({ config, catalogue, chain, drop }: GenerationParts) {
    this.config = config
    this.catalogue = catalogue
    this.chain = chain
    this.#drop = drop
    this.gone = new Promise((resolve) => (this.#done = resolve))
  }

  enter(): this {
    this.#users++
    return this
  }

  leave(): void {
    if (--this.#users === 0 && this.#retired) void this.#dispose()
  }

  /**
   * No exchange begins with it any more: it is disposed when the last one that did has ended, however long that takes.
   * Once.
   */
  retire(): void {
    this.#retired = true
    if (this.#users === 0) void this.#dispose()
  }

  async #dispose(): Promise<void> {
    await this.chain.dispose()
    await this.#drop()
    this.#done()
  }
}

/** The present generation, and the way to the next. */
export class Generations implements GenerationSource {
  readonly #live = new Set<LiveGeneration>()
  #current: LiveGeneration

  constructor(first: GenerationParts) {
    this.#current = this.#begin(first)
  }

  get current(): Generation {
    return this.#current
  }

  /** An exchange begins: the generation stays whole until it says `leave`. */
  enter(): Generation {
    return this.#current.enter()
  }

  /** Swaps one reference. Exchanges under way keep the old generation. */
  replace(next: GenerationParts): void {
    const old = this.#current
    this.#current = this.#begin(next)
    old.retire()
  }

  /** Resolves when every generation is disposed; no exchange begins any more. Once. */
  async close(): Promise<void> {
    this.#current.retire()
    await Promise.all([...this.#live].map(({ gone }) => gone))
  }

  #begin(parts: GenerationParts): LiveGeneration {
    const generation = new LiveGeneration(parts)
    this.#live.add(generation)
    void generation.gone.then(() => this.#live.delete(generation))
    return generation
  }
}
