// Tells clients that a model goes where their request does not name it, but something that it made.
import { retirementHeaders } from '../catalogue/retirement.ts'
import type { Exchange } from '../contract/contract.ts'
import type { OperationContext } from '../contract/served.ts'

/**
 * From now on the reply has what every reply of that model has. `model`: its public name; one that is not there any
 * more says nothing.
 */
export function tellOfModel(
  exchange: Exchange,
  model: string,
  { catalogue }: Pick<OperationContext, 'catalogue'>
): void {
  const found = catalogue.models.get(model)
  if (found) for (const [header, value] of retirementHeaders(found)) exchange.setHeader(header, value)
}
