// Puts the records of requests into drafts, where they go with the ends that they tell of.
import { recordValues } from '../rows/batch.ts'
import type { RequestLog, RequestRecord } from '../../requests.ts'
import type { Drafts } from '../writer/draft.ts'

/** The part of a request log that writes. */
export class RecordLog implements Pick<RequestLog, 'append'> {
  readonly #drafts: Pick<Drafts, 'draft' | 'full' | 'wakeSoon'>
  readonly #owes: (requestId: string) => boolean
  readonly #told: (dropped: boolean) => void

  /**
   * `owes` says whether a request has a hold whose end is not on disk: its record is never dropped. `told` is called
   * with each record, whether it was dropped as more comes than can be written.
   */
  constructor(
    drafts: Pick<Drafts, 'draft' | 'full' | 'wakeSoon'>,
    owes: (requestId: string) => boolean,
    told: (dropped: boolean) => void
  ) {
    this.#drafts = drafts
    this.#owes = owes
    this.#told = told
  }

  append(record: RequestRecord, _json?: string, time?: number): void {
    const dropped = this.#drafts.full && !this.#owes(record.request_id)
    this.#told(dropped)
    if (dropped) return
    const { draft } = this.#drafts
    const values = recordValues(record, time)
    draft.records.push(...values)
    draft.count(values[5].length)
    this.#drafts.wakeSoon()
  }
}
