// Lets others hear the records of finished exchanges on their way to the request log.
import type { RequestLog, RequestRecord } from './requests.ts'

/** Called with each record, on the way of a request: it must be quick, and must not throw. */
export type RecordListener = (record: RequestRecord) => void

/** Who hears the records of one process. Without a listener a record costs one comparison. */
export class RequestTap {
  readonly #listeners = new Set<RecordListener>()
  /** Is told when somebody listens from now on, and when nobody does any more. */
  onHeard: (isHeard: boolean) => void = () => {}

  /** The returned function ends it. */
  listen(listener: RecordListener): () => void {
    this.#listeners.add(listener)
    if (this.#listeners.size === 1) this.onHeard(true)
    return () => {
      if (this.#listeners.delete(listener) && this.#listeners.size === 0) this.onHeard(false)
    }
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
