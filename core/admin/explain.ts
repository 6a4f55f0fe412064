// The route that explains what would become of a request: nothing is sent, held, counted or recorded.
import type { AdminParts, Answer, Call } from './contract.ts'
import { readAsked } from './explain-request.ts'
import { explanationOf } from './explanation.ts'

/** The most bytes of a request to explain. A client's request may be far larger, but is not sent to this listener. */
export const largestAsked = 1024 * 1024

/** Explains a request by the code that requests of clients go through. */
export async function explainRequest({ json }: Call, parts: AdminParts): Promise<Answer> {
  const asked = readAsked(await json(), parts)
  return { json: await parts.rehearse(asked, (found) => explanationOf(found)) }
}
