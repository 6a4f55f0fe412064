// What a worker writes: its drafts become records, one after the other, which the supervisor reads from a ring.
import { performance } from 'node:perf_hooks'
import type { Hold } from '../../embedded/balance/hold.ts'
import { FrameEncoder } from '../../embedded/log/frame.ts'
import type { Batch } from '../../embedded/rows/batch.ts'
import type { RowIds } from '../../embedded/rows/row-ids.ts'
import { company, Draft, lag } from '../../embedded/writer/draft.ts'
import type { Drafts } from '../../embedded/writer/draft.ts'
import { Turns } from '../../embedded/writer/turns.ts'
import { unavailable } from '../../embedded/writer/unavailable.ts'
import type { RingWriter } from './ring.ts'

/** How long it may take until the progress of holds is sent, in milliseconds. */
const laziness = 250

/**
 * The drafts of one worker. One record is under way at a time, and the draft gathers meanwhile, as the writer of a
 * process does with its frames. So there is never more than one record of a worker in a frame, and what a record says
 * of a hold comes behind what the one before said.
 */
export class RecordWriter implements Drafts {
  /** Called with the holds whose end has become durable. */
  onEnded: (ended: readonly Hold[]) => void = () => {}
  /** Called with each record, to add the limits that changed. */
  onBalance: (batch: Batch) => void = () => {}
  /** The ids of the rows of holds, as the records say them: those of this thread alone. */
  readonly rowIds: RowIds
  readonly #ring: RingWriter
  readonly #encoder = new FrameEncoder('')
  readonly #now: () => number
  readonly #follow: () => Promise<boolean>
  #draft = new Draft()
  /** What is under way, and since when by performance.now(). */
  #flight: { readonly draft: Draft; readonly began: number } | undefined
  readonly #turns = new Turns(() => this.#cut(true))
  /** Whether somebody waits for the draft. */
  #awaited = false
  #soon: NodeJS.Timeout | undefined
  #later: NodeJS.Timeout | undefined

  /**
   * `now`: Unix milliseconds. `follow` brings the database up to the journal, for who reads it in this thread; it
   * resolves with false when that fails.
   */
  constructor(ring: RingWriter, rowIds: RowIds, now: () => number, follow = (): Promise<boolean> => followed) {
    this.#ring = ring
    this.rowIds = rowIds
    this.#now = now
    this.#follow = follow
    ring.onFailure = () => this.#disappoint()
  }

  get draft(): Draft {
    return this.#draft
  }

  get full(): boolean {
    return this.#ring.refuses || this.#draft.full
  }

  get keepsUp(): boolean {
    return !this.#ring.refuses && (!this.#flight || performance.now() - this.#flight.began < lag)
  }

  admit(): Draft {
    if (this.full)
      throw unavailable(
        this.#ring.refuses
          ? 'the journal takes nothing new at present'
          : `${this.#draft.ops} operations wait for the journal`
      )
    return this.#draft
  }

  wake(): void {
    this.#awaited = true
    this.#turns.ask(this.#flight !== undefined)
  }

  wakeSoon(): void {
    if (!this.#turns.running && !this.#flight) this.#soon ??= setTimeout(this.#lapse, company).unref()
  }

  wakeLater(): void {
    this.#later ??= setTimeout(() => this.wake(), laziness).unref()
  }

  async flushed(): Promise<boolean> {
    try {
      await this.#sent(({ durable }) => durable)
      return await this.#follow()
    } catch {
      return false
    }
  }

  /** Resolves when nothing is left that is not on disk, however long that takes. */
  emptied(): Promise<void> {
    return this.#sent((draft) => draft.kept())
  }

  /** Sends one draft after the other until there is none, and waits for each. */
  async #sent(written: (draft: Draft) => Promise<void>): Promise<void> {
    while (this.#flight || this.#draft.ops > 0) {
      const waited = written(this.#flight?.draft ?? this.#draft)
      this.wake()
      await waited
    }
  }

  /** Resolves when everything that was put until now is on disk, however long that takes. */
  async kept(): Promise<void> {
    if (this.#draft.ops === 0) return this.#flight?.draft.kept()
    this.wakeSoon()
    return this.#draft.kept()
  }

  /** Sends the draft after the delay of `wakeSoon`; where holds come and go, without the youngest. */
  readonly #lapse = (): void => {
    this.#soon = undefined
    if (!this.#turns.running) this.#cut(this.#draft.ended.length > 0)
  }

  /** Sends the draft, while none is under way. With `lazily`, holds that can still wait stay in the next one. */
  #cut(lazily: boolean): void {
    clearTimeout(this.#soon)
    clearTimeout(this.#later)
    this.#soon = this.#later = undefined
    this.#awaited = false
    this.#turns.end()
    const draft = this.#draft
    if (draft.ops === 0) return
    this.#draft = new Draft()
    const young = performance.now() - company
    const batch = draft.seal(0, this.#now(), this.rowIds, lazily ? this.#draft : undefined, young)
    this.onBalance(batch)
    this.#flight = { draft, began: performance.now() }
    // The encoder's buffer is the ring's until the record is acknowledged: no other one is encoded before.
    void this.#ring.send(this.#encoder.pack(batch)).then(() => this.#kept(draft))
  }

  #kept(draft: Draft): void {
    this.#flight = undefined
    draft.resolve()
    this.onEnded(draft.ended)
    if (this.#awaited) this.wake()
    else if (this.#draft.ops > 0) this.wakeSoon()
  }

  /** Tells those who wait that the journal cannot be written. What they did is written nevertheless, when it can be. */
  #disappoint(): void {
    const error = unavailable('the journal cannot be written')
    this.#flight?.draft.disappoint(error)
    this.#draft.disappoint(error)
  }
}

const followed = Promise.resolve(true)
