// Everything found wrong with one file, in the order of the file.
import { below } from '../core/options/schema-check.ts'
import type { Fault } from '../core/options/schema-check.ts'
import type { Position, Problem } from '../core/catalogue/settings.ts'
import type { Source } from './source.ts'

/** Something wrong at a place of the text, or (without a place) with the file as a whole. */
export interface Finding {
  at?: Position
  message: string
}

/** The way to a value: `['channels', 'openai', 'base_url']`. */
export type Path = readonly (string | number)[]

/** Finds places for what is wrong with values, and tells sections which values are sound before they look closer. */
export class Report {
  readonly #source: Source
  readonly #findings: Finding[]
  readonly #unreadable: ReadonlySet<string>
  readonly #unsound = new Set<string>()
  /** What was warned of, in no order. */
  readonly warnings: Finding[] = []

  /** Adds to the findings there are; values that could not be read are unsound. */
  constructor(source: Source, findings: Finding[]) {
    this.#source = source
    this.#findings = findings
    this.#unreadable = new Set(source.spoiled())
    for (const pointer of this.#unreadable) this.#mark(pointer)
  }

  /**
   * A fault that a schema found; `base` is where the checked value stands. Nothing more is said of a value that could
   * not be read. A wrong name leaves what it names sound, and what is around it.
   */
  fault({ pointer, on, message }: Fault, base = ''): void {
    const whole = base + pointer
    if (on === 'value' && this.#unreadable.has(whole)) return
    if (on !== 'name') this.#mark(whole)
    this.#add(whole, on === 'value' ? 'value' : 'key', message)
  }

  /** A problem with a value that its schema could not see. */
  value(path: Path, message: string): void {
    this.#mark(pointerOf(path))
    this.#add(pointerOf(path), 'value', message)
  }

  /** A problem with a key, or with the whole of what it names. */
  key(path: Path, message: string): void {
    this.#mark(pointerOf(path))
    this.#add(pointerOf(path), 'key', message)
  }

  /** Something that is most likely a mistake, and keeps nobody from using the file. */
  warn(path: Path, message: string): void {
    const pointer = pointerOf(path)
    this.warnings.push({
      at: this.#source.position(pointer, 'value'),
      message: `${this.#source.subject(pointer)}: ${message}`
    })
  }

  /** No problem so far at this value or below it, so it is what its schema says. */
  sound(...path: Path): boolean {
    return !this.#unsound.has(pointerOf(path))
  }

  /** A value of the file for use in a message. */
  show(path: Path, value: unknown): string {
    return this.#source.origin().show(pointerOf(path), value)
  }

  /** Where a value stands. */
  position(path: Path): Position {
    return this.#source.position(pointerOf(path), 'value')
  }

  #add(pointer: string, on: 'key' | 'value', message: string): void {
    const subject = this.#source.subject(pointer)
    const at = this.#source.position(pointer, on)
    this.#findings.push({ at, message: subject === '' ? message : `${subject}: ${message}` })
  }

  #mark(pointer: string): void {
    let around = pointer
    while (around !== '') {
      this.#unsound.add(around)
      around = around.slice(0, around.lastIndexOf('/'))
    }
    this.#unsound.add('')
  }
}

/** More than this is noise: the rest is counted. */
const mostShown = 100

/** Findings by position, equal ones once. */
export function problemsOf(file: string, findings: readonly Finding[]): Problem[] {
  const start = { line: 0, column: 0 }
  const order = ({ at: a = start }: Finding, { at: b = start }: Finding): number =>
    a.line - b.line || a.column - b.column
  const problems = new Map<string, Problem>()
  for (const { at, message } of findings.toSorted(order)) {
    const place = at ? `${file}:${at.line}:${at.column}` : file
    problems.set(`${place} ${message}`, { place, message })
  }
  const all = [...problems.values()]
  const rest = all.length - mostShown
  return rest <= 0 ? all : [...all.slice(0, mostShown), { place: file, message: `and ${rest} more` }]
}

function pointerOf(path: Path): string {
  return path.reduce<string>(below, '')
}
