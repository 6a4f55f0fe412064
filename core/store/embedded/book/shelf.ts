// The kept answers of this store: saved by the writer together with settlements, and read by the reader thread.
import { GatewayError } from '../../../errors.ts'
import type { Answers, KeptAnswer } from '../../answers.ts'
import { answerColumns } from '../rows/batch.ts'
import type { Value } from '../files/sqlite.ts'
import type { Reader } from '../reader/reader.ts'
import type { Writer } from '../writer/writer.ts'

/** How long an answer stays in memory, in milliseconds. By then it is in the database. */
const recently = 1000
/** When the bodies in memory have more bytes than this, the database is brought up to date at once. */
const mostRecent = 64 * 1024 * 1024

interface Recent {
  answer: KeptAnswer
  durable: Promise<void>
}

/** The kept answers of one store. */
export class Shelf implements Answers {
  readonly #writer: Writer
  readonly #reader: Reader
  readonly #age: number
  readonly #now: () => number
  /** The answers that may not be in the database yet, by id. */
  readonly #recent = new Map<string, Recent>()
  #bytes = 0
  #timer: NodeJS.Timeout | undefined

  /** `age`: how long an answer is kept, in milliseconds. */
  constructor(writer: Writer, reader: Reader, age: number, now: () => number) {
    this.#writer = writer
    this.#reader = reader
    this.#age = age
    this.#now = now
  }

  async find(id: Buffer): Promise<KeptAnswer | undefined> {
    try {
      const recent = this.#recent.get(id.toString('latin1'))
      if (recent) return await recent.durable.then(() => recent.answer)
      const { answer } = await this.#reader.ask({ kind: 'answer', id, since: this.#now() - this.#age })
      if (!answer) return undefined
      const { asked, body } = answer
      return {
        ...answer,
        asked: Buffer.from(asked),
        headers: JSON.parse(answer.headers) as KeptAnswer['headers'],
        body: body === null ? undefined : Buffer.from(body.buffer, body.byteOffset, body.byteLength)
      }
    } catch (cause) {
      throw new GatewayError(
        'billing_unavailable',
        'It cannot be found out whether this request was answered before. Try again.',
        { retryAfterMs: 1000, cause }
      )
    }
  }

  put(id: Buffer, tenant: string, answer: KeptAnswer): Promise<void> {
    const { draft } = this.#writer
    draft.answers.push(...answerValues(id, tenant, this.#now(), answer))
    draft.count(answer.body?.length ?? 0)
    this.#writer.wake()
    const { durable } = draft
    this.#remember(id.toString('latin1'), { answer, durable })
    return durable
  }

  /** Takes over answers of another thread, as rows of a batch that is on disk. */
  follow(rows: readonly Value[]): void {
    for (let at = 0; at < rows.length; at += answerColumns.length) {
      const [id, , , asked, status, type, headers, streamed, body] = rows.slice(at, at + answerColumns.length)
      const answer = {
        asked: bytesOf(asked as Uint8Array),
        status: status as number,
        type: type as string,
        headers: JSON.parse(headers as string) as KeptAnswer['headers'],
        streamed: streamed === 1,
        body: body === null ? undefined : bytesOf(body as Uint8Array)
      }
      this.#remember(bytesOf(id as Uint8Array).toString('latin1'), { answer, durable: done })
    }
  }

  #remember(name: string, recent: Recent): void {
    this.#bytes += (recent.answer.body?.length ?? 0) - (this.#recent.get(name)?.answer.body?.length ?? 0)
    this.#recent.set(name, recent)
    if (this.#bytes > mostRecent) void this.#sweep()
    else this.#timer ??= setTimeout(() => void this.#sweep(), recently).unref()
  }

  /** Removes the answers that are in the database from memory. While the disk fails, they all stay. */
  async #sweep(): Promise<void> {
    clearTimeout(this.#timer)
    const kept = [...this.#recent]
    const written = await this.#writer.flushed()
    if (written) {
      for (const [name, recent] of kept) {
        if (this.#recent.get(name) !== recent) continue
        this.#recent.delete(name)
        this.#bytes -= recent.answer.body?.length ?? 0
      }
    }
    this.#timer = this.#recent.size === 0 ? undefined : setTimeout(() => void this.#sweep(), recently).unref()
  }

  /** Stops the timer. Nothing may be asked or kept after it. */
  close(): void {
    clearTimeout(this.#timer)
  }
}

const done = Promise.resolve()

function bytesOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

/** The values of an answer in the order of {@link answerColumns}. `time`: Unix milliseconds. */
export function answerValues(id: Buffer, tenant: string, time: number, answer: KeptAnswer): Value[] {
  const { asked, status, type, headers, streamed, body = null } = answer
  return [id, tenant, time, asked, status, type, JSON.stringify(headers), streamed ? 1 : 0, body]
}
