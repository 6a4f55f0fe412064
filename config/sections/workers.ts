// The key `workers` of gateway.yaml: how many threads serve clients.
import { processors } from './processors.ts'
import type { OptionSchema } from '../../core/options/schema.ts'
import type { Report } from '../report.ts'

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
    'and budgets hold for all together. More than one need a SQLite file as the store. A change needs a restart.'
} as const satisfies OptionSchema

/** What `auto` is in this process. A quota that changes later is no change of the file. */
let atStart: number | undefined

/** How many workers the file asks for. The memory that several share knows nothing of other gateways. */
export function readWorkers(workers: number | 'auto', store: { sqlite?: string | undefined }, report: Report): number {
  if (workers !== 1 && store.sqlite === undefined)
    report.value(
      ['workers'],
      'must be 1 with a store in PostgreSQL, which is shared by gateways of one thread each: start as many as there ' +
        'are processors to use, or use a SQLite file'
    )
  return workers === 'auto' ? (atStart ??= Math.min(most, processors())) : workers
}
