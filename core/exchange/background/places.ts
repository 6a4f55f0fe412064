// Places of work that is about to begin: taken when its request is admitted, so that all who come at once count.
import { caller } from '../../contract/slots.ts'
import type { Exchange } from '../../contract/contract.ts'
import type { TaskSettings } from '../../catalogue/settings.ts'
import { GatewayError } from '../../errors.ts'
import type { Reason } from '../../errors.ts'
import type { Works } from '../../store/works.ts'

/** What is refused may be tried again then, in milliseconds. */
const retryAfterMs = 5000

/** Why work is refused for which there is no room. `where`: the setting that says so. */
export function full(what: string, where: string): Reason {
  return { by: 'room', what, where, remedy: `raise ${where}` }
}

/** Those of a process. Each is held until the work of its exchange is among the works, or the exchange is over. */
export class Places {
  readonly #works: Pick<Works, 'running' | 'runningOf'>
  /** The tenant, by the id of the exchange. */
  readonly #taken = new Map<string, string>()

  constructor(works: Pick<Works, 'running' | 'runningOf'>) {
    this.#works = works
  }

  /**
   * Takes one, which the end of the exchange gives back.
   * @throws GatewayError `overloaded` when too much is under way, `rate_limit_concurrency` when too much of the
   * tenant's is
   */
  take(exchange: Exchange, { open, of_tenant: ofTenant }: Pick<TaskSettings, 'open' | 'of_tenant'>): void {
    const { tenant = '' } = exchange.find(caller) ?? {}
    if (this.#works.running + this.#taken.size >= open)
      throw new GatewayError(
        'overloaded',
        `There are ${open} tasks under way, and no room for more. Try again later.`,
        { retryAfterMs, reason: full(`${open} tasks are under way`, 'tasks.open') }
      )
    if (this.#works.runningOf(tenant) + this.#takenOf(tenant) >= ofTenant)
      throw new GatewayError(
        'rate_limit_concurrency',
        `Your tenant has ${ofTenant} tasks under way, which is as many as it may have. Wait for one to end, or cancel one.`,
        { retryAfterMs, reason: full(`${ofTenant} tasks of the tenant ${tenant} are under way`, 'tasks.of_tenant') }
      )
    this.#taken.set(exchange.id, tenant)
    exchange.defer(() => this.leave(exchange))
  }

  /** The work of the exchange is among the works now, where it is counted. */
  leave({ id }: Pick<Exchange, 'id'>): void {
    this.#taken.delete(id)
  }

  #takenOf(tenant: string): number {
    let count = 0
    for (const whose of this.#taken.values()) if (whose === tenant) count++
    return count
  }
}
