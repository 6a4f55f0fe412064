// The series of one metric: a number for each combination of label values, or counts by size.

/** How the values that several threads have of one series become one. */
export type Aggregator = 'sum' | 'min' | 'max'

/** Label values by label name. */
export type Labels = Readonly<Record<string, string>>

/** The value of one series; a histogram has several of them, and tells which by `metricName` and the label `le`. */
export interface SeriesValue {
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}

/**
 * The most series of one metric. More series mean that a label does not come from a closed list; updates of further
 * series are dropped and counted.
 */
const mostSeries = 10_000
/** One metric with its labels. */
export interface Family {
  /** The full name. */
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  aggregator: Aggregator
  labels: readonly string[]
}

/** One series that is a single number. */
class Figure {
  readonly labels: Labels
  value = 0
  readonly #name: string

  constructor(name: string, labels: Labels) {
    this.#name = name
    this.labels = labels
  }

  protected get name(): string {
    return this.#name
  }
}

/** One series of a counter. */
export class Sum extends Figure {
  add(by = 1): void {
    if (!(by >= 0 && by < Infinity)) throw new RangeError(`${this.name}: a counter cannot grow by ${by}`)
    this.value += by
  }
}

/** One series of a gauge. */
export class Level extends Figure {
  set(value: number): void {
    this.value = finite(this.name, value)
  }

  add(by: number): void {
    this.value += finite(this.name, by)
  }
}

/** One series of a histogram. */
export class Spread {
  readonly #name: string
  readonly #labels: Labels
  readonly #bounds: readonly number[]
  readonly #counts: number[]
  #count = 0
  #sum = 0

  constructor(name: string, labels: Labels, bounds: readonly number[]) {
    this.#name = name
    this.#labels = labels
    this.#bounds = bounds
    this.#counts = bounds.map(() => 0)
  }

  observe(value: number): void {
    this.#sum += finite(this.#name, value)
    this.#count++
    for (let i = 0; i < this.#bounds.length; i++) {
      if (value > this.#bounds[i]!) continue
      this.#counts[i]!++
      break
    }
  }

  values(): SeriesValue[] {
    const [name, labels] = [this.#name, this.#labels]
    let below = 0
    return [
      ...this.#bounds.map((le, i) => ({
        metricName: `${name}_bucket`,
        labels: { ...labels, le },
        value: (below += this.#counts[i]!)
      })),
      { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: this.#count },
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: this.#count }
    ]
  }
}

type Branch<C> = Map<string, Branch<C> | C>

/** One cell per combination of label values. A cell is made on first use, and found with one map lookup per label. */
export class Cells<C extends Lost, Lost> {
  readonly all: C[] = []
  /** The labels of each, with the empty ones. */
  readonly #labels: Labels[] = []
  readonly #family: Family
  readonly #make: (labels: Labels) => C
  /** Takes the updates of series above {@link mostSeries}. */
  readonly #lost: Lost
  readonly #root: Branch<C> | C

  constructor(family: Family, make: (labels: Labels) => C, lost: Lost) {
    this.#family = family
    this.#make = make
    this.#lost = lost
    this.#root = family.labels.length === 0 ? this.#add({}) : new Map<string, Branch<C> | C>()
  }

  of(labels: Labels): Lost {
    const names = this.#family.labels
    let node: Branch<C> | C | undefined = this.#root
    for (let i = 0; i < names.length; i++) {
      node = (node as Branch<C>).get(labels[names[i]!]!)
      if (node === undefined) return this.#grow(labels)
    }
    return node as C
  }

  #grow(labels: Labels): Lost {
    const { name, labels: names } = this.#family
    const wrong =
      Object.keys(labels).find((label) => !names.includes(label)) ??
      names.find((label) => typeof labels[label] !== 'string')
    if (wrong !== undefined)
      throw new TypeError(`${name} has the labels ${names.join(', ')}, and is given ${wrong}: ${labels[wrong]}`)
    if (this.all.length >= mostSeries) return this.#lost
    let branch = this.#root as Branch<C>
    for (const label of names.slice(0, -1)) {
      let next = branch.get(labels[label]!) as Branch<C> | undefined
      if (!next) branch.set(labels[label]!, (next = new Map()))
      branch = next
    }
    const cell = this.#add({ ...labels })
    branch.set(labels[names.at(-1)!]!, cell)
    return cell
  }

  /** Removes the cells whose labels are not kept. There must be labels. */
  retain(keeps: (labels: Labels) => boolean): void {
    const names = this.#family.labels
    for (let i = this.all.length - 1; i >= 0; i--) {
      const labels = this.#labels[i]!
      if (keeps(labels)) continue
      let branch = this.#root as Branch<C>
      for (const label of names.slice(0, -1)) branch = branch.get(labels[label]!) as Branch<C>
      branch.delete(labels[names.at(-1)!]!)
      this.all.splice(i, 1)
      this.#labels.splice(i, 1)
    }
  }

  #add(labels: Labels): C {
    const cell = this.#make(Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== '')))
    this.all.push(cell)
    this.#labels.push(labels)
    return cell
  }
}

function finite(metric: string, value: number): number {
  if (!Number.isFinite(value)) throw new RangeError(`${metric}: ${value} is not a number`)
  return value
}
