// The kept answers as one thread has them: it writes them with the settlements that they belong to, and looks up others
// where the store is.
import type { Answers, KeptAnswer } from '../../answers.ts'
import { answerValues } from '../../embedded/book/shelf.ts'
import type { RecordWriter } from '../records/record-writer.ts'

interface Recent {
  readonly answer: KeptAnswer
  readonly durable: Promise<void>
}

/** The answers of one seat. */
export class SeatAnswers implements Answers {
  readonly #drafts: RecordWriter
  readonly #stored: Pick<Answers, 'find'>
  readonly #now: () => number
  /** Those that are not on disk, by id. */
  readonly #recent = new Map<string, Recent>()

  constructor(drafts: RecordWriter, stored: Pick<Answers, 'find'>, now: () => number) {
    this.#drafts = drafts
    this.#stored = stored
    this.#now = now
  }

  async find(id: Buffer): Promise<KeptAnswer | undefined> {
    const recent = this.#recent.get(id.toString('latin1'))
    if (!recent) return this.#stored.find(id)
    await recent.durable
    return recent.answer
  }

  put(id: Buffer, tenant: string, answer: KeptAnswer): Promise<void> {
    const { draft } = this.#drafts
    draft.answers.push(...answerValues(id, tenant, this.#now(), answer))
    draft.count(answer.body?.length ?? 0)
    this.#drafts.wake()
    const { durable } = draft
    const [name, recent] = [id.toString('latin1'), { answer, durable }]
    this.#recent.set(name, recent)
    void draft.kept().then(() => this.#recent.get(name) === recent && this.#recent.delete(name))
    return durable
  }
}
