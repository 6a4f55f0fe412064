// What was charged for the parts of requests that go on: a session has a part for each of its turns.
import { noUsage, sumOf } from '../../../money/usage.ts'
import type { Usage } from '../../../money/usage.ts'

/** What was charged for the parts of a request so far. */
export interface PartCharges {
  amount: bigint
  /** Null when no part was charged by a usage. */
  usage: Readonly<Usage> | null
}

/** These charges by the id of the request. Who has the request's hold forgets them with it. */
export class ChargedParts extends Map<string, PartCharges> {
  /** Adds a charge for a part of a request, or for several. */
  charge(requestId: string, amount: bigint, usage: Readonly<Usage> | null): void {
    const charges = this.get(requestId)
    if (!charges) return void this.set(requestId, { amount, usage })
    charges.amount += amount
    if (usage) charges.usage = sumOf(charges.usage ?? noUsage, usage)
  }
}
