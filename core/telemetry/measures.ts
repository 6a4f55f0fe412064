// What workers measure of attempts, on its way to the thread that exports metrics: values with the same attributes
// travel together.
import type { Attributes } from '@opentelemetry/api'
import type { histograms } from './conventions.ts'

/** Values of one histogram with the same attributes. They can be sent to another thread. */
export interface Measured {
  readonly of: keyof typeof histograms
  readonly attributes: Attributes
  readonly values: readonly number[]
}

/** Called with what was measured elsewhere. It must not throw. */
export type MeasureListener = (all: readonly Measured[]) => void

/** Either end of the way: a worker notes and takes, and whoever exports hears what it is told. */
export class MeasureRelay {
  readonly #noted = new Map<string, Measured & { readonly values: number[] }>()
  readonly #listeners = new Set<MeasureListener>()

  note(of: Measured['of'], value: number, attributes: Attributes): void {
    const mark = `${of} ${JSON.stringify(attributes)}`
    const noted = this.#noted.get(mark)
    if (noted) noted.values.push(value)
    else this.#noted.set(mark, { of, attributes, values: [value] })
  }

  /** What was noted since it was last called. */
  take(): readonly Measured[] {
    const all = [...this.#noted.values()]
    this.#noted.clear()
    return all
  }

  /** The returned function ends it. */
  listen(listener: MeasureListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  tell(all: readonly Measured[]): void {
    if (all.length > 0) for (const listener of this.#listeners) listener(all)
  }
}
