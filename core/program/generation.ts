// A configuration made live: its chain and catalogue, kept until the last exchange that began with it has ended.
import type { Catalogue } from '../catalogue/catalogue.ts'
import type { Chain } from '../exchange/chain.ts'
import type { Logger } from '../telling/log.ts'
import type { Config } from '../catalogue/settings.ts'

/** What an exchange runs on, from its first hook to its settlement. */
export interface Generation {
  readonly config: Config
  readonly catalogue: Catalogue
  readonly chain: Chain
  /** The exchange is over. Once per `enter`. */
  leave(): void
}

/** Values kept across generations, each for as long as some generation uses it. */
export class Shared {
  readonly #values = new Map<string, { value: unknown; users: number }>()

  /** A view for one generation: `share` counts the generation as a user once, `drop` takes it out everywhere. */
  user(): { share<T>(key: string, create: () => T): T; drop(): void } {
    const used = new Set<string>()
    return {
      share: <T>(key: string, create: () => T): T => {
        let entry = this.#values.get(key)
        if (!entry) this.#values.set(key, (entry = { value: create(), users: 0 }))
        if (!used.has(key)) {
          used.add(key)
          entry.users++
        }
        return entry.value as T
      },
      drop: () => {
        for (const key of used) {
          const entry = this.#values.get(key)!
          if (--entry.users === 0) this.#values.delete(key)
        }
        used.clear()
      }
    }
  }

  /** The value, when some generation has created it: for the admin API. */
  find(key: string): unknown {
    return this.#values.get(key)?.value
  }
}

/** The parts of a generation about to go live; `drop` gives back what it shares. */
export interface GenerationParts {
  config: Config
  catalogue: Catalogue
  chain: Chain
  drop(): void
}

class LiveGeneration implements Generation {
  readonly config: Config
  readonly catalogue: Catalogue
  readonly chain: Chain
  readonly #drop: () => void
  readonly #log: Logger
  #users = 0
  #retired = false
  #timer: NodeJS.Timeout | undefined
  #disposed: Promise<void> | undefined

  constructor(parts: GenerationParts, log: Logger) {
    this.config = parts.config
    this.catalogue = parts.catalogue
    this.chain = parts.chain
    this.#drop = parts.drop
    this.#log = log
  }

  enter(): this {
    this.#users++
    return this
  }

  leave(): void {
    if (--this.#users === 0 && this.#retired) void this.dispose()
  }

  /** No exchange begins with it any more. */
  retire(afterMs: number): void {
    this.#retired = true
    if (this.#users === 0) void this.dispose()
    else {
      this.#timer = setTimeout(() => void this.dispose(), afterMs)
      this.#timer.unref()
    }
  }

  /** Once; a plugin that fails to dispose is logged and does not keep the others. */
  dispose(): Promise<void> {
    clearTimeout(this.#timer)
    return (this.#disposed ??= this.chain
      .dispose()
      .catch((error: unknown) => this.#log.error('a plugin could not be disposed', { error: String(error) }))
      .finally(this.#drop))
  }
}

/** The present generation, and the way to the next. */
export class Generations {
  readonly #log: Logger
  #current: LiveGeneration

  constructor(first: GenerationParts, log: Logger) {
    this.#log = log
    this.#current = new LiveGeneration(first, log)
  }

  get current(): Generation {
    return this.#current
  }

  /** An exchange begins: the generation stays whole until it says `leave`. */
  enter(): Generation {
    return this.#current.enter()
  }

  /** Swaps one reference. Exchanges under way keep the old generation, which is disposed when the last ends or after `afterMs`. */
  replace(next: GenerationParts, afterMs: number): void {
    const old = this.#current
    this.#current = new LiveGeneration(next, this.#log)
    old.retire(afterMs)
  }

  /** Disposes the present generation; nothing runs any more. */
  close(): Promise<void> {
    return this.#current.dispose()
  }
}
