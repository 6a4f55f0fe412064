// The key `workers` of gateway.yaml: how many threads serve clients.
import { processors } from './processors.ts'
import type { OptionSchema } from '../../core/options/schema.ts'

/** Each worker has a seat in the memory that all share, which is made for this many. */
const most = 64

export const workersShape = {
  type: 'integer',
  minimum: 1,
  maximum: most,
  or: ['auto'],
  default: 1,
  description:
    'Threads that serve clients, all on one port: `auto` is one for each processor that the process may use. Limits ' +
    'and budgets hold for all together, and for all gateways where the store is in PostgreSQL: there each takes six ' +
    'connections. A change needs a restart.'
} as const satisfies OptionSchema

/** What `auto` is in this process. A quota that changes later is no change of the file. */
let atStart: number | undefined

/** How many workers the file asks for. */
export function readWorkers(workers: number | 'auto'): number {
  return workers === 'auto' ? (atStart ??= Math.min(most, processors())) : workers
}
