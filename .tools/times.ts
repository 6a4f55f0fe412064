// How long test files take: what was measured here the last time, and what is known of those that take longest.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** What was measured, in milliseconds. */
const measuredFile = join(import.meta.dirname, '../.cache/test-times.json')
/** The seconds of those that take longest, for a clone that has run none of them. */
const usualFile = join(import.meta.dirname, 'test-times.json')

/** The durations of all files. */
export class Times {
  readonly #usual = new Map(Object.entries(JSON.parse(readFileSync(usualFile, 'utf8')) as Record<string, number>))
  readonly #measured = new Map<string, number>()

  constructor() {
    try {
      const kept = JSON.parse(readFileSync(measuredFile, 'utf8')) as Record<string, number>
      for (const [file, ms] of Object.entries(kept)) this.#measured.set(file, ms)
    } catch {
      // Nothing has run here so far.
    }
  }

  /** Milliseconds; undefined of a file that has not run here and is not known to take long. */
  of(file: string): number | undefined {
    const seconds = this.#usual.get(file)
    return this.#measured.get(file) ?? (seconds && seconds * 1000)
  }

  /** The seconds of a file that is known to take long, whatever was measured; undefined of others. */
  usual(file: string): number | undefined {
    return this.#usual.get(file)
  }

  set(file: string, ms: number): void {
    this.#measured.set(file, Math.round(ms))
  }

  /** Writes what was measured. */
  keep(): void {
    mkdirSync(dirname(measuredFile), { recursive: true })
    writeFileSync(measuredFile, JSON.stringify(Object.fromEntries(this.#measured)))
  }
}
