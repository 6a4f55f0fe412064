// What was charged for the parts of requests that go on: a session has a part for each of its turns.
import { noUsage, sumOf } from '../../../money/usage.ts'
import type { Usage } from '../../../money/usage.ts'

/** What was charged for the parts of a request so far. */
export interface PartCharges {
  readonly amount: bigint
  readonly usage: Readonly<Usage>
}

/** These charges by the id of the request. Who has the request's hold forgets them with it. */
export class ChargedParts extends Map<string, PartCharges> {
  /** Adds a charge for a part of a request, or for several. */
  charge(requestId: string, amount: bigint, usage: Readonly<Usage>): void {
    const before = this.get(requestId)
    this.set(requestId, { amount: amount + (before?.amount ?? 0n), usage: sumOf(before?.usage ?? noUsage, usage) })
  }
}
