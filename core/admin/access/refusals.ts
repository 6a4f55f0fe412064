// Notes in the audit log who was refused: those with wrong tokens, and those who may not do what they tried.
import type { GatewayError } from '../../errors.ts'
import type { AuditEntry, Documents } from '../../store/documents.ts'
import type { Logger } from '../../telling/log.ts'
import { auditEntry } from '../audit.ts'
import type { Actor } from '../audit.ts'
import { Denied } from './access.ts'

/** How many different refusals are counted. The one that was counted first is forgotten first. */
const mostCounted = 1000
/** How many entries of one hour may be about people whom nobody knows, since these come at no cost. */
const mostUnknown = 100
const hour = 3_600_000

/** The refusals of a running gateway. Of many alike it notes the first, the second, the fourth, and so on. */
export class Refusals {
  readonly #documents: Documents
  readonly #log: Logger
  readonly #counts = new Map<string, number>()
  #unknown = { since: -Infinity, count: 0 }

  constructor(documents: Documents, log: Logger) {
    this.#documents = documents
    this.#log = log
  }

  /** Notes a wrong token. `times` is how many came from the address; the caller tells of some of them alone. */
  wrongToken(address: string, path: string, times: number): void {
    this.#log.warn('a wrong admin token was presented', { address, path, wrong: times })
    const now = performance.now()
    if (now - this.#unknown.since > hour) this.#unknown = { since: now, count: 0 }
    if (++this.#unknown.count > mostUnknown) return
    const by: Actor = { kind: 'unknown', id: 'unknown', address, role: 'viewer', tenant: null }
    this.#write(by, 'sign_in.refuse', { kind: 'token', id: path }, 'this is no token of this gateway', times)
  }

  /** Notes that somebody who is known was refused, when the error says that they may not do it. */
  denied(by: Actor, method: string, path: string, { details: { cause } }: GatewayError): void {
    if (!(cause instanceof Denied)) return
    const what = `${method} ${path.slice(0, 200)}`
    const who = `${by.kind} ${by.id}`
    const times = this.#count(`${who} ${what}`)
    if (!Number.isInteger(Math.log2(times))) return
    this.#log.warn('an actor was refused', { by: by.id, address: by.address, what, why: cause.message, times })
    this.#write(by, 'access.refuse', { kind: 'route', id: what, tenant: by.tenant }, cause.message, times)
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
