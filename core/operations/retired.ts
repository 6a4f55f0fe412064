// Adds a model's retirement headers to replies whose request does not name the model, but something that it made.
import { retirementHeaders } from '../catalogue/retirement.ts'
import type { Exchange } from '../contract/contract.ts'
import type { OperationContext } from '../contract/served.ts'

/**
 * Sets the retirement headers of a model on the reply. `model`: its public name. A model that is gone from the
 * catalogue sets nothing.
 */
export function tellOfModel(
  exchange: Exchange,
  model: string,
  { catalogue }: Pick<OperationContext, 'catalogue'>
): void {
  const found = catalogue.models.get(model)
  if (found) for (const [header, value] of retirementHeaders(found)) exchange.setHeader(header, value)
}
