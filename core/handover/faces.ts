// The services of a store as everybody in a process or a thread has them from start to end, whoever does what they are
// asked for: the store itself, or the process that it was handed over to.
import type { Claims } from '../store/claims.ts'
import type { Limits } from '../store/limits.ts'
import type { Secrets } from '../store/secrets.ts'
import type { Store } from '../store/store.ts'
import { switchable } from './switch.ts'

/** What is asked of a store beside its books. */
export type Sums = Pick<Store, 'spend' | 'traffic' | 'flush' | 'health'>

/** All that a store does, and what belongs to it in memory. */
export interface StoreServices extends Pick<
  Store,
  'documents' | 'ledger' | 'requests' | 'answers' | 'routes' | 'works'
> {
  readonly limits: Limits
  readonly secrets: Secrets
  readonly claims: Claims
  readonly sums: Sums
}

/** What a store does, as it is opened. */
export function servicesOf({
  store,
  limits,
  secrets,
  claims
}: Pick<StoreServices, 'limits' | 'secrets' | 'claims'> & { readonly store: Store }): StoreServices {
  const { documents, ledger, requests, answers, routes, works } = store
  return { documents, ledger, requests, answers, routes, works, limits, secrets, claims, sums: store }
}

/** The faces of the services of one process or thread. */
export class Faces {
  readonly store: Omit<Store, 'close'>
  readonly limits: Limits
  readonly secrets: Secrets
  readonly claims: Claims
  readonly #switches

  /** `secrets` makes those of the documents. */
  constructor(first: Omit<StoreServices, 'secrets'>, secrets: (documents: Store['documents']) => Secrets) {
    const documents = switchable<Store['documents']>(first.documents, {
      all: true,
      find: true,
      change: true,
      note: true,
      watch: true,
      audit: true
    })
    const switches = {
      documents,
      ledger: switchable<Store['ledger']>(first.ledger, {
        reserve: true,
        look: true,
        detached: true,
        scopes: true,
        balances: true,
        watch: true,
        price: true,
        affordable: true,
        standings: true
      }),
      requests: switchable<Store['requests']>(first.requests, { append: true, list: true, find: true, totals: true }),
      answers: switchable<Store['answers']>(first.answers, { find: true, put: true }),
      routes: switchable<Store['routes']>(first.routes, { find: true, put: true, remove: true }),
      works: switchable<Store['works']>(first.works, {
        open: true,
        running: true,
        runningOf: true,
        current: true,
        at: true,
        errand: true,
        told: true,
        put: true,
        note: true,
        find: true,
        list: true,
        forget: true,
        oldest: true,
        room: true,
        places: true,
        flushed: true,
        expired: true,
        sweep: true,
        keepResult: true,
        result: true
      }),
      limits: switchable<Limits>(first.limits, { decide: true, look: true }),
      secrets: switchable<Secrets>(secrets(documents.face), {
        put: true,
        find: true,
        spent: true,
        hold: true,
        end: true
      }),
      claims: switchable<Claims>(first.claims, { take: true, look: true, leave: true }),
      sums: switchable<Sums>(first.sums, { spend: true, traffic: true, flush: true, health: true })
    }
    this.#switches = switches
    this.limits = switches.limits.face
    this.secrets = switches.secrets.face
    this.claims = switches.claims.face
    const { ledger, requests, answers, routes, works, sums } = switches
    this.store = {
      documents: documents.face,
      ledger: ledger.face,
      requests: requests.face,
      answers: answers.face,
      routes: routes.face,
      works: works.face,
      spend: sums.face.spend,
      traffic: sums.face.traffic,
      flush: sums.face.flush,
      health: sums.face.health,
      nodes: () => []
    }
  }

  /** From now on these do it. */
  use({ documents, ledger, requests, answers, routes, works, limits, secrets, claims, sums }: StoreServices): void {
    const switches = this.#switches
    switches.documents.use(documents)
    switches.ledger.use(ledger)
    switches.requests.use(requests)
    switches.answers.use(answers)
    switches.routes.use(routes)
    switches.works.use(works)
    switches.limits.use(limits)
    switches.secrets.use(secrets)
    switches.claims.use(claims)
    switches.sums.use(sums)
  }
}
