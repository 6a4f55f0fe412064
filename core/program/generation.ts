// Generations: a configuration in use, with its chain and catalogue, until the last exchange that began with it has
// ended.
import { ownAllowances } from '../allowance.ts'
import type { Allowances } from '../allowance.ts'
import type { Catalogue } from '../catalogue/catalogue.ts'
import type { Chain } from '../exchange/state/chain.ts'
import type { Generation, GenerationSource } from '../exchange/state/generation.ts'
import type { Logger } from '../telling/log.ts'
import type { Config } from '../catalogue/settings.ts'
import type { Awaitable, Plugin, PluginContext, SharedKey } from '../contract/contract.ts'
import { thrownText } from '../thrown.ts'

interface Entry {
  value: unknown
  users: number
  dispose(): Awaitable<void>
  leave(): unknown
}

/** The {@link Shared} values of one generation. */
export interface SharedUser {
  /** The `share` function for one plugin, whose keys are its own. */
  share(plugin: Plugin): PluginContext['share']
  /** Those of all plugins. */
  readonly allowances: Allowances
  /** Ends the generation's use of its values. An error while disposing one is logged. */
  drop(): Promise<void>
}

/** What a process leaves of a value to the next one, with the place of the value. */
export type Inheritance = readonly [place: string, left: unknown]

/** Values kept across generations. Each is kept as long as some generation uses it. */
export class Shared {
  readonly #values = new Map<string, Entry>()
  /** What the process before has left, by the place of the value. */
  readonly #left: Map<string, unknown>
  readonly #log: Logger
  readonly #allowances: Allowances

  /** `allowances`: those of all threads, where there are several. */
  constructor(log: Logger, left: readonly Inheritance[] = [], allowances: Allowances = ownAllowances()) {
    this.#log = log
    this.#allowances = allowances
    this.#left = new Map(left)
  }

  /** What the process that takes the place of this one is to know of the values. */
  leave(): readonly Inheritance[] {
    return [...this.#values].flatMap(([place, entry]) => {
      try {
        const left = structuredClone(entry.leave())
        return left === undefined ? [] : [[place, left] as const]
      } catch (error) {
        this.#log.error('what a plugin shares could not be left to the next process', {
          plugin: place.split('/', 1)[0],
          error: thrownText(error)
        })
        return []
      }
    })
  }

  user(): SharedUser {
    const used = new Map<string, Entry>()
    return {
      allowances: this.#allowances,
      share:
        ({ name }) =>
        (key, create, dispose, leave) => {
          const place = placeOf(name, key)
          let entry = this.#values.get(place)
          if (!entry) {
            const value = create(this.#left.get(place))
            this.#left.delete(place)
            entry = { value, users: 0, dispose: () => dispose?.(value), leave: () => leave?.(value) }
            this.#values.set(place, entry)
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
              error: thrownText(error)
            })
          }
        }
      }
    }
  }
}

/** Unambiguous, because names of plugins contain no slash. */
function placeOf(plugin: string, { name }: SharedKey<unknown>): string {
  return `${plugin}/${name}`
}

/** The parts of a generation that is about to be used. `drop` ends its use of shared values. */
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
  /** Resolves when the generation is disposed. */
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
   * Marks that no more exchanges begin with the generation. It is disposed when the last of its exchanges has ended,
   * however long that takes. Called once.
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

/** The current generation, and those before it that still have exchanges. */
export class Generations implements GenerationSource {
  readonly #live = new Set<LiveGeneration>()
  #current: LiveGeneration

  constructor(first: GenerationParts) {
    this.#current = this.#begin(first)
  }

  get current(): Generation {
    return this.#current
  }

  /** Called when an exchange begins. The generation is not disposed before the exchange calls `leave`. */
  enter(): Generation {
    return this.#current.enter()
  }

  /** Makes another generation the current one. Exchanges under way keep the old one. */
  replace(next: GenerationParts): void {
    const old = this.#current
    this.#current = this.#begin(next)
    old.retire()
  }

  /** Resolves when every generation is disposed. Called once, when no more exchanges begin. */
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
