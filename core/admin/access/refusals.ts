// Notes in the audit log who was refused: those with wrong tokens, and those who may not do what they tried.
import type { GatewayError } from '../../errors.ts'
import type { AuditEntry, Documents } from '../../store/documents.ts'
import type { Logger } from '../../telling/log.ts'
import { auditEntry } from '../api/audit.ts'
import type { Actor, Thing } from '../api/audit.ts'
import { Denied } from './access.ts'
import { actorOf } from './sign-in.ts'
import type { Identity } from './sign-in.ts'

/** How many different refusals, and sources of them, are counted. What was counted last longest ago is forgotten. */
const mostCounted = 1000
/**
 * How many entries of one hour may be about one source: wrong tokens, sign-ins that are none, a person whom the
 * provider knows, or an actor. So whoever may try without end does not crowd out the others.
 */
const mostOfOne = 100
const hour = 3_600_000

/** The entries of a source in its present hour, which began at `since` by `performance.now()`. */
interface Hour {
  readonly since: number
  entries: number
}

/** The refusals of a running gateway. Of many alike it notes the first, the second, the fourth, and so on. */
export class Refusals {
  readonly #documents: Documents
  readonly #log: Logger
  readonly #counts = new Map<string, number>()
  readonly #hours = new Map<string, Hour>()

  constructor(documents: Documents, log: Logger) {
    this.#documents = documents
    this.#log = log
  }

  /** Notes a wrong token. `times` is how many came from the address; the caller tells of some of them alone. */
  wrongToken(address: string, path: string, times: number): void {
    this.#log.warn('a wrong admin token was presented', { address, path, wrong: times })
    this.#write('token', strangerAt(address), 'sign_in.refuse', { kind: 'sign_in', id: path }, wrongToken, times)
  }

  /** Notes that somebody was not let in who came from the provider, or said so. `who` is whom the provider named. */
  signIn(address: string, why: string, who?: Identity): void {
    const times = this.#count(`${address} ${who?.subject} ${why}`)
    if (!isTold(times)) return
    this.#log.warn('a sign-in was refused', { address, why, times })
    const by = who ? { ...strangerAt(address), ...actorOf(who) } : strangerAt(address)
    this.#write(`sign-in ${by.id}`, by, 'sign_in.refuse', { kind: 'sign_in', id: 'provider' }, why, times)
  }

  /** Notes that somebody who is known was refused, when the error says that they may not do it. */
  denied(by: Actor, method: string, path: string, { details: { cause } }: GatewayError): void {
    if (!(cause instanceof Denied)) return
    const what = `${method} ${path.slice(0, 200)}`
    const who = `${by.kind} ${by.id}`
    const times = this.#count(`${who} ${what}`)
    if (!isTold(times)) return
    this.#log.warn('an actor was refused', { by: by.id, address: by.address, what, why: cause.message, times })
    this.#write(who, by, 'access.refuse', { kind: 'route', id: what, tenant: by.tenant }, cause.message, times)
  }

  /** Writes an entry. Of those beyond the bound of the hour it writes how many there were, now and then. */
  #write(source: string, by: Actor, action: string, thing: Thing, why: string, times: number): void {
    const beyond = this.#beyond(source)
    if (beyond === 0) return this.#put(by, action, thing, why, times)
    if (!isTold(beyond)) return
    const more = `${beyond} more than the ${mostOfOne} entries of an hour; this is the last of them: ${why}`
    this.#put(by, action, thing, more, times)
  }

  /** How many entries of a source are beyond the bound of its hour, with the present one. */
  #beyond(source: string): number {
    const now = performance.now()
    const known = this.#hours.get(source)
    const present = known && now - known.since <= hour ? known : { since: now, entries: 0 }
    this.#hours.delete(source)
    this.#hours.set(source, present)
    if (this.#hours.size > mostCounted) this.#hours.delete(this.#hours.keys().next().value!)
    return Math.max(0, ++present.entries - mostOfOne)
  }

  #put(by: Actor, action: string, thing: Thing, why: string, times: number): void {
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

/** Whether the so-and-so-many-th of things that are alike is told: the first, the second, the fourth, and so on. */
function isTold(times: number): boolean {
  return Number.isInteger(Math.log2(times))
}

const wrongToken = 'this is no token of this gateway'

/** Whoever nobody knows, at an address. */
function strangerAt(address: string | null): Actor {
  return { kind: 'unknown', id: 'unknown', address, role: 'viewer', tenant: null }
}
