// Places of work that is about to begin, for an exchange: refused with what the client is told, and given back with its
// end.
import type { Awaitable } from '../../awaitable.ts'
import { caller } from '../../contract/slots.ts'
import type { Exchange } from '../../contract/contract.ts'
import type { TaskSettings } from '../../catalogue/settings.ts'
import { GatewayError } from '../../errors.ts'
import type { Reason } from '../../errors.ts'
import type { WorkBounds, Works } from '../../store/works.ts'

/** What is refused may be tried again then, in milliseconds. */
const retryAfterMs = 5000

/** Why work is refused for which there is no room. `where`: the setting that says so. */
export function full(what: string, where: string): Reason {
  return { by: 'room', what, where, remedy: `raise ${where}` }
}

/** Those of a process. Each is held until the work of its exchange is among the works, or the exchange is over. */
export class Places {
  readonly #works: Pick<Works, 'places'>

  constructor(works: Pick<Works, 'places'>) {
    this.#works = works
  }

  /**
   * Takes one, which the end of the exchange gives back.
   * @throws GatewayError `overloaded` when too much is under way, `rate_limit_concurrency` when too much of the
   * tenant's is
   */
  take(exchange: Exchange, settings: Pick<TaskSettings, 'open' | 'of_tenant'>): Awaitable<void> {
    const { tenant = '' } = exchange.find(caller) ?? {}
    const { open, of_tenant } = settings
    const go = (refusedBy: keyof WorkBounds | undefined): void => {
      if (refusedBy) throw refusal(refusedBy, tenant, settings)
      exchange.defer(() => this.leave(exchange))
    }
    const taken = this.#works.places.take(exchange.id, tenant, { open, of_tenant })
    return taken instanceof Promise ? taken.then(go) : go(taken)
  }

  /** The work of the exchange is among the works now, where it is counted. */
  leave({ id }: Pick<Exchange, 'id'>): void {
    this.#works.places.leave(id)
  }
}

function refusal(by: keyof WorkBounds, tenant: string, { open, of_tenant: ofTenant }: WorkBounds): GatewayError {
  if (by === 'open')
    return new GatewayError('overloaded', `There are ${open} tasks under way, and no room for more. Try again later.`, {
      retryAfterMs,
      reason: full(`${open} tasks are under way`, 'tasks.open')
    })
  return new GatewayError(
    'rate_limit_concurrency',
    `Your tenant has ${ofTenant} tasks under way, which is as many as it may have. Wait for one to end, or cancel one.`,
    { retryAfterMs, reason: full(`${ofTenant} tasks of the tenant ${tenant} are under way`, 'tasks.of_tenant') }
  )
}
