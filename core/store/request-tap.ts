// Lets others hear the records of finished exchanges on their way to the request log.
import type { RequestLog, RequestRecord } from './requests.ts'

/** Called with each record, on the way of a request: it must be quick, and must not throw. */
export type RecordListener = (record: RequestRecord) => void

/** Who hears the records of one process. Without a listener a record costs one comparison. */
export class RequestTap {
  readonly #listeners = new Set<RecordListener>()

  /** The returned function ends it. */
  listen(listener: RecordListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Whether anybody listens. */
  get isHeard(): boolean {
    return this.#listeners.size > 0
  }

  /** Tells the listeners of a record that another thread has written. */
  tell(record: RequestRecord): void {
    for (const listener of this.#listeners) listener(record)
  }

  /** A log that writes to another one, and tells the listeners. */
  on(log: RequestLog): RequestLog {
    return {
      append: (record, json, time) => {
        log.append(record, json, time)
        if (this.isHeard) this.tell(record)
      },
      list: (query) => log.list(query)
    }
  }
}
