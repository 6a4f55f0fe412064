// Lets others hear the lines that a logger writes.
import type { LogFields, Logger, LogLevel } from './log.ts'

/** Called with each line. It must not throw, and must not log. */
export type LineListener = (level: LogLevel, message: string, fields: LogFields) => void

/** Who hears the lines of one logger. */
export class LogTap {
  readonly #listeners = new Set<LineListener>()

  /** The returned function ends it. */
  listen(listener: LineListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** A logger that writes to another one, and tells the listeners. Fields are given to `log` as well as told. */
  on(log: Logger, base: LogFields = {}): Logger {
    const tell =
      (level: LogLevel) =>
      (message: string, fields?: LogFields): void => {
        log[level](message, fields)
        for (const listener of this.#listeners) listener(level, message, { ...base, ...fields })
      }
    return {
      debug: tell('debug'),
      info: tell('info'),
      warn: tell('warn'),
      error: tell('error'),
      child: (fields) => this.on(log.child(fields), { ...base, ...fields })
    }
  }
}
