// Everything found wrong with one file, in the order of the file.
import { below, showPlain } from '../core/schema-check.ts'
import type { Fault } from '../core/schema-check.ts'
import type { Position, Problem } from '../core/settings.ts'
import type { Source } from './source.ts'

/** The way to a value: `['channels', 'openai', 'base_url']`. */
export type Path = readonly (string | number)[]

const start: Position = { line: 1, column: 1 }
/** More than this is noise: the rest is counted. */
const mostShown = 100

/** Collects problems with their places. Sections ask it which parts are sound before they look closer. */
export class Report {
  readonly #file: string
  readonly #found: { at: Position; message: string }[] = []
  readonly #unsound = new Set<string>()
  #source: Source | undefined

  constructor(file: string) {
    this.#file = file
  }

  /** From here on problems are found by pointer. Values that could not be read are unsound. */
  read(source: Source): void {
    this.#source = source
    for (const pointer of source.spoiled()) this.#mark(pointer)
  }

  /** A problem at a place in the text. */
  at(at: Position, message: string): void {
    this.#found.push({ at, message })
  }

  /** A problem of the file as a whole: that it is missing, or no text. */
  file(message: string): void {
    this.at(start, message)
  }

  /** A fault that a schema found; `base` is where the checked value stands. Nothing is said twice of an unreadable value. */
  fault({ pointer, on, message }: Fault, base = ''): void {
    const whole = base + pointer
    if (this.#unsound.has(whole) && on === 'value') return
    this.#add(whole, on, message)
  }

  /** A problem with a value that its schema could not see. */
  value(path: Path, message: string): void {
    this.#add(path.reduce<string>(below, ''), 'value', message)
  }

  /** A problem with a key, or with the whole of what it names. */
  key(path: Path, message: string): void {
    this.#add(path.reduce<string>(below, ''), 'key', message)
  }

  /** No problem so far at this value or below it. */
  sound(...path: Path): boolean {
    return !this.#unsound.has(path.reduce<string>(below, ''))
  }

  /** A value of the file for use in a message. */
  show(path: Path, value: unknown): string {
    return (this.#source?.show ?? showPlain)(path.reduce<string>(below, ''), value)
  }

  /** Where a value stands. */
  position(path: Path): Position {
    return this.#source?.position(path.reduce<string>(below, ''), 'value') ?? start
  }

  get clean(): boolean {
    return this.#found.length === 0
  }

  /** By position; equal ones once. */
  problems(): Problem[] {
    const sorted = this.#found.toSorted((a, b) => a.at.line - b.at.line || a.at.column - b.at.column)
    const problems = new Map<string, Problem>()
    for (const { at, message } of sorted) {
      const place = `${this.#file}:${at.line}:${at.column}`
      problems.set(`${place} ${message}`, { place, message })
    }
    const all = [...problems.values()]
    const shown = all.slice(0, mostShown)
    if (all.length > mostShown) shown.push({ place: this.#file, message: `and ${all.length - mostShown} more` })
    return shown
  }

  #add(pointer: string, on: 'key' | 'value', message: string): void {
    this.#mark(pointer)
    const at = this.#source?.position(pointer, on) ?? start
    const subject = this.#source?.subject(pointer) ?? ''
    this.at(at, subject === '' ? message : `${subject}: ${message}`)
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
