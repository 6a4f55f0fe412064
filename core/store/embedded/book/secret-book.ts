// The client secrets of one store, which are documents: few, small, and over after minutes.
import type { Awaitable } from '../../../awaitable.ts'
import type { Spent } from '../../../catalogue/caller.ts'
import type { Nano } from '../../../money/money.ts'
import { steadyNow } from '../../../watchdog/steady-time.ts'
import { changeOf, documentKind } from '../../documents.ts'
import type { Documents } from '../../documents.ts'
import { forgotten, mostSecrets, spentKept } from '../../secrets.ts'
import type { KeptSecret, Secrets } from '../../secrets.ts'

/** How often expired secrets are removed, in milliseconds. */
const sweepMs = 60_000

/** A secret as a document. Digests are in hexadecimal, and amounts are nano-dollars as decimal strings. */
interface StoredSecret {
  /** Its id, too. */
  readonly sha256: string
  readonly issuer: string
  readonly model: string
  readonly expires: number
  readonly settings?: string | undefined
  readonly budget?: string | undefined
  readonly posted?: string
  /** What is held, by name. */
  readonly holds?: Readonly<Record<string, string>>
}

const secretDocuments = documentKind<StoredSecret>('client_secret')

/** The client secrets that are documents. */
export class SecretBook implements Secrets {
  readonly #documents: Documents
  readonly #now: () => number
  /** How many secrets each key has. */
  readonly #counts = new Map<string, number>()
  /** Each is the same as long as its document is. */
  readonly #found = new WeakMap<StoredSecret, KeptSecret>()
  #sweptAt = -Infinity

  constructor(documents: Documents, now: () => number = steadyNow) {
    this.#documents = documents
    this.#now = now
  }

  async put({ sha256, issuer: by, budget, ...rest }: KeptSecret): Promise<boolean> {
    const [id, issuer] = [sha256.toString('hex'), by.toString('hex')]
    if (this.#now() - this.#sweptAt > sweepMs || this.#countOf(issuer) >= mostSecrets) this.#sweep()
    const before = this.#documents.find(secretDocuments, id)
    // One that is kept again has its place already.
    const isNew = before?.issuer !== issuer || before.expires <= this.#sweptAt
    if (isNew && this.#countOf(issuer) >= mostSecrets) return false
    // Where the store does not take it, it counts until the next sweep: one comes before any secret is refused.
    if (isNew) this.#count(issuer)
    const value = { sha256: id, issuer, ...rest, ...(budget !== undefined && { budget: String(budget) }) }
    await this.#documents.change([changeOf(secretDocuments, id, value)])
    return true
  }

  find(sha256: Buffer): KeptSecret | undefined {
    const stored = this.#documents.find(secretDocuments, sha256.toString('hex'))
    if (!stored || stored.expires <= this.#now()) return undefined
    let found = this.#found.get(stored)
    if (!found) {
      const { issuer, model, expires, settings, budget } = stored
      const more = {
        ...(settings !== undefined && { settings }),
        ...(budget !== undefined && { budget: BigInt(budget) })
      }
      found = { sha256, issuer: Buffer.from(issuer, 'hex'), model, expires, ...more }
      this.#found.set(stored, found)
    }
    return found
  }

  spent(sha256: Buffer): Spent {
    return spentOf(this.#budgeted(sha256))
  }

  /** The hold is in one batch with what is reserved in the same turn of the event loop. */
  hold(sha256: Buffer, name: string, amount: Nano): Awaitable<Spent | undefined> {
    try {
      const stored = this.#budgeted(sha256)
      const { holds = {}, budget } = stored
      if (Object.hasOwn(holds, name)) return undefined
      const spent = spentOf(stored)
      if (amount > 0n && spent.posted + spent.pending + amount > BigInt(budget!)) return spent
      this.#note(sha256, { ...stored, holds: { ...holds, [name]: String(amount) } })
      return undefined
    } catch (error) {
      return Promise.reject(error)
    }
  }

  end(sha256: Buffer, name: string, charged: Nano): void {
    const stored = this.#documents.find(secretDocuments, sha256.toString('hex'))
    if (!stored?.holds || !Object.hasOwn(stored.holds, name)) return
    const { [name]: _, ...holds } = stored.holds
    try {
      this.#note(sha256, { ...stored, posted: String(spentOf(stored).posted + charged), holds })
    } catch {
      // The store takes nothing at present: it stays held, so that no more is spent than may be.
    }
  }

  #budgeted(sha256: Buffer): StoredSecret {
    const stored = this.#documents.find(secretDocuments, sha256.toString('hex'))
    if (stored?.budget === undefined) throw forgotten()
    return stored
  }

  #note(sha256: Buffer, value: StoredSecret): void {
    this.#documents.note([changeOf(secretDocuments, sha256.toString('hex'), value)])
  }

  /** Removes what is over, and counts what is left. */
  #sweep(): void {
    const now = (this.#sweptAt = this.#now())
    this.#counts.clear()
    const over = this.#documents.all(secretDocuments).flatMap(({ sha256, issuer, expires, budget }) => {
      if (expires > now) this.#count(issuer)
      return expires + (budget === undefined ? 0 : spentKept) > now ? [] : [changeOf(secretDocuments, sha256, null)]
    })
    if (over.length > 0) this.#documents.note(over)
  }

  #countOf(issuer: string): number {
    return this.#counts.get(issuer) ?? 0
  }

  #count(issuer: string): void {
    this.#counts.set(issuer, this.#countOf(issuer) + 1)
  }
}

function spentOf({ posted = '0', holds = {} }: StoredSecret): Spent {
  return { posted: BigInt(posted), pending: Object.values(holds).reduce((sum, amount) => sum + BigInt(amount), 0n) }
}
