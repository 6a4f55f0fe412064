// Finds the task that a path names, if it belongs to the caller.
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import type { Work } from '../../store/works.ts'
import { ownerOf } from '../../contract/owner.ts'
import { tellOfModel } from '../retired.ts'

/** The longest id that is looked up. Every id that the gateway gives out is shorter. */
const longestId = 64

/**
 * The task in the path. Unknown, foreign, deleted and expired tasks, and those of another kind, all get the same error.
 * @throws GatewayError `task_not_found`
 */
export async function taskOf(
  exchange: Exchange,
  { services, catalogue }: OperationContext,
  kind: string
): Promise<Work> {
  const id = exchange.request.parameters['task_id'] ?? ''
  const work = id.length <= longestId ? await services.works.find(ownerOf(exchange), id) : undefined
  if (work?.kind !== kind) throw new GatewayError('task_not_found', 'Task not found')
  tellOfModel(exchange, work.model, { catalogue })
  return work
}
