// Notes in the audit log who was refused: those with wrong tokens, and those who may not do what they tried.
import type { GatewayError } from '../../errors.ts'
import type { AuditEntry, Documents } from '../../store/documents.ts'
import type { Logger } from '../../telling/log.ts'
import { auditEntry } from '../audit.ts'
import type { Actor } from '../audit.ts'
import { Denied } from './access.ts'

/** How many different refusals are counted. The one that was counted first is forgotten first. */
const mostCounted = 1000
/** How many entries of one hour may be about people whom nobody knows, and about others: both may try without end. */
const mostUnknown = 100
const mostKnown = 1000
const hour = 3_600_000

/** Lets so many things of an hour pass. */
class Hourly {
  readonly #most: number
  #since = -Infinity
  #passed = 0

  constructor(most: number) {
    this.#most = most
  }

  pass(): boolean {
    const now = performance.now()
    if (now - this.#since > hour) {
      this.#since = now
      this.#passed = 0
    }
    return ++this.#passed <= this.#most
  }
}

/** The refusals of a running gateway. Of many alike it notes the first, the second, the fourth, and so on. */
export class Refusals {
  readonly #documents: Documents
  readonly #log: Logger
  readonly #counts = new Map<string, number>()
  readonly #unknown = new Hourly(mostUnknown)
  readonly #known = new Hourly(mostKnown)

  constructor(documents: Documents, log: Logger) {
    this.#documents = documents
    this.#log = log
  }

  /** Notes a wrong token. `times` is how many came from the address; the caller tells of some of them alone. */
  wrongToken(address: string, path: string, times: number): void {
    this.#log.warn('a wrong admin token was presented', { address, path, wrong: times })
    if (this.#unknown.pass()) this.#writeUnknown(address, path, 'this is no token of this gateway', times)
  }

  /** Notes that somebody whom the provider sent was not let in. */
  signIn(address: string, why: string): void {
    if (!this.#unknown.pass()) return
    this.#log.warn('a sign-in was refused', { address, why })
    this.#writeUnknown(address, 'provider', why, 1)
  }

  /** Notes that somebody who is known was refused, when the error says that they may not do it. */
  denied(by: Actor, method: string, path: string, { details: { cause } }: GatewayError): void {
    if (!(cause instanceof Denied)) return
    const what = `${method} ${path.slice(0, 200)}`
    const who = `${by.kind} ${by.id}`
    const times = this.#count(`${who} ${what}`)
    if (!Number.isInteger(Math.log2(times)) || !this.#known.pass()) return
    this.#log.warn('an actor was refused', { by: by.id, address: by.address, what, why: cause.message, times })
    this.#write(by, 'access.refuse', { kind: 'route', id: what, tenant: by.tenant }, cause.message, times)
  }

  #writeUnknown(address: string, what: string, why: string, times: number): void {
    const by: Actor = { kind: 'unknown', id: 'unknown', address, role: 'viewer', tenant: null }
    this.#write(by, 'sign_in.refuse', { kind: 'sign_in', id: what }, why, times)
  }

  #write(by: Actor, action: string, thing: Parameters<typeof auditEntry>[2], why: string, times: number): void {
    const entry: AuditEntry = {
      ...auditEntry(by, action, thing, undefined, undefined),
      outcome: 'refused',
      why,
      times
    }
    this.#documents.change([], entry).catch((error: Error) => {
      this.#log.error('a refusal was not written to the audit log', { error: error.message })
    })
  }

  #count(what: string): number {
    const times = (this.#counts.get(what) ?? 0) + 1
    this.#counts.delete(what)
    this.#counts.set(what, times)
    if (this.#counts.size > mostCounted) this.#counts.delete(this.#counts.keys().next().value!)
    return times
  }
}
