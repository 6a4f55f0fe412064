// Answers what a process or a thread asks for that has not the store itself, and knows what it has taken.
import type { KeptSecret } from '../secrets.ts'
import type { Services } from '../services.ts'
import type { Store } from '../store.ts'
import type { Work, WorkBounds, WorkPlaces } from '../works.ts'
import type { Served } from './line.ts'

/** What a clerk works with. */
export interface ClerkParts {
  readonly services: Pick<Services, 'documents' | 'secrets' | 'claims'> & {
    readonly answers: Pick<Services['answers'], 'find'>
    readonly routes: Pick<Services['routes'], 'find' | 'remove'>
    readonly works: Pick<Services['works'], 'find' | 'list' | 'oldest' | 'forget' | 'places'>
  }
  readonly store: Pick<Store, 'requests' | 'spend' | 'traffic'>
}

/** The clerk of one process or thread. */
export class Clerk {
  readonly #parts: ClerkParts
  /** The names that it has claimed. */
  readonly #claims: Set<string>
  /** The places that it has for work which is about to begin, by the ids of the requests. */
  readonly #places = new Set<string>()
  #ended = false

  /** `claims`: the names that it had claimed before. */
  constructor(parts: ClerkParts, claims: Iterable<string> = []) {
    this.#parts = parts
    this.#claims = new Set(claims)
  }

  get claimed(): readonly string[] {
    return [...this.#claims]
  }

  /** The functions that it may call. */
  get served(): Served {
    const { requests, spend, traffic } = this.#parts.store
    const { answers, routes, documents, works, secrets, claims } = this.#parts.services
    return {
      list: (...query: Parameters<typeof requests.list>) => requests.list(...query),
      findRequest: (...id: Parameters<typeof requests.find>) => requests.find(...id),
      totals: (...asked: Parameters<typeof requests.totals>) => requests.totals(...asked),
      spend: (...query: Parameters<typeof spend>) => spend(...query),
      traffic: (...query: Parameters<typeof traffic>) => traffic(...query),
      findAnswer: (...id: Parameters<typeof answers.find>) => answers.find(...id),
      findRoute: (...id: Parameters<typeof routes.find>) => routes.find(...id),
      removeRoute: (...id: Parameters<typeof routes.remove>) => routes.remove(...id),
      putSecret: (secret: KeptSecret) => secrets.put(secret),
      spentOfSecret: (sha256: Uint8Array) => secrets.spent(Buffer.from(sha256)),
      holdOfSecret: (sha256: Uint8Array, name: string, amount: bigint) =>
        secrets.hold(Buffer.from(sha256), name, amount),
      endOfSecret: (sha256: Uint8Array, name: string, charged: bigint) =>
        secrets.end(Buffer.from(sha256), name, charged),
      claim: (name: string, what: Buffer) => this.#claim(name, what),
      lookAtClaim: (...name: Parameters<typeof claims.look>) => claims.look(...name),
      leaveClaim: (name: string) => {
        if (this.#claims.delete(name)) claims.leave(name)
      },
      change: (...changes: Parameters<typeof documents.change>) => documents.change(...changes),
      note: (...changes: Parameters<typeof documents.note>) => documents.note(...changes),
      audit: (...query: Parameters<typeof documents.audit>) => documents.audit(...query),
      findWork: (...id: Parameters<typeof works.find>) => works.find(...id),
      listWork: (...query: Parameters<typeof works.list>) => works.list(...query),
      oldestWork: (...query: Parameters<typeof works.oldest>) => works.oldest(...query),
      forgetWork: (work: Work) => works.forget(work),
      takePlace: (...place: Parameters<WorkPlaces['take']>) => this.#place(...place),
      leavePlace: (id: string) => {
        if (this.#places.delete(id)) works.places.leave(id)
      }
    }
  }

  /** Whoever it is the clerk of is gone: gives up its names and places. */
  end(): void {
    this.#ended = true
    for (const name of this.#claims) this.#parts.services.claims.leave(name)
    this.#claims.clear()
    for (const id of this.#places) this.#parts.services.works.places.leave(id)
    this.#places.clear()
  }

  async #place(...place: Parameters<WorkPlaces['take']>): Promise<keyof WorkBounds | undefined> {
    const [id] = place
    const { places } = this.#parts.services.works
    const refusedBy = await places.take(...place)
    if (refusedBy) return refusedBy
    if (this.#ended) places.leave(id)
    else this.#places.add(id)
    return undefined
  }

  async #claim(name: string, what: Buffer): Promise<Buffer | undefined> {
    const { claims } = this.#parts.services
    const taken = await claims.take(name, what)
    if (taken) return taken
    if (this.#ended) claims.leave(name)
    else this.#claims.add(name)
    return undefined
  }
}
