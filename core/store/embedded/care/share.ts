// How much a number of batches charged.
import { entryColumns } from '../rows/batch.ts'
import type { Batch } from '../rows/batch.ts'

const [kindColumn, amountColumn] = [entryColumns.indexOf('kind'), entryColumns.indexOf('amount')]

/** A number of batches, and what they charge in nano-dollars. */
export class Share {
  batches = 0
  charges = 0
  amount = 0n

  add({ entries }: Batch): void {
    this.batches++
    for (let i = 0; i < entries.length; i += entryColumns.length) {
      if (entries[i + kindColumn] !== 'settle') continue
      this.charges++
      this.amount += entries[i + amountColumn] as bigint
    }
  }

  static of(batches: Iterable<Batch>): Share {
    const share = new Share()
    for (const batch of batches) share.add(batch)
    return share
  }
}
