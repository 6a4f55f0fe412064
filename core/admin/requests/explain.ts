// The route that explains what would become of a request: nothing is sent, held, counted or recorded.
import { forbidden } from '../access/access.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { readAsked } from './explain-request.ts'
import { worstView } from './worst-view.ts'

/** The most bytes of a request to explain. A client's request may be far larger, but is not sent to this listener. */
export const largestAsked = 1024 * 1024

/** Explains a request by the code that requests of clients go through, where those are served. */
export async function explainRequest({ json, by: { tenant } }: Call, parts: AdminParts): Promise<Answer> {
  const asked = readAsked(await json(), parts)
  const explanation = worstView(await parts.engine.explain(asked))
  // A plugin of the operator's own may find the caller by something else than the key that was named.
  if (tenant !== null && explanation.caller && explanation.caller.tenant !== tenant)
    throw forbidden(`This is for the tenant ${tenant} alone.`, 'the caller of the request is of another tenant')
  return { json: explanation }
}
