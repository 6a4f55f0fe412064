// Finds the task that a path names: its owner's, or none.
import { GatewayError } from '../../contract/contract.ts'
import type { Exchange } from '../../contract/contract.ts'
import type { OperationContext } from '../../contract/served.ts'
import type { Work } from '../../store/works.ts'
import { ownerOf } from '../../contract/owner.ts'
import { tellOfModel } from '../retired.ts'

/** Longer than any that was given out. */
const longestId = 64

/**
 * The task in the path. Unknown, foreign, deleted and expired ones, and those of another kind, are all the same.
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
