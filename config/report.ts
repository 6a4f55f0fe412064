// Collects everything that is wrong with a configuration, and sorts it by its place in the files.
import { dirname } from 'node:path'
import { below } from '../core/options/schema-check.ts'
import type { Fault } from '../core/options/schema-check.ts'
import { placeOf } from './files/position.ts'
import type { Problem } from '../core/catalogue/settings.ts'
import type { Position } from './files/position.ts'
import type { Source } from './files/source.ts'

/** A problem at a place in a file, or without a place, with the whole of gateway.yaml. */
export interface Finding {
  at?: Position
  message: string
}

/** The path of a value: `['channels', 'openai', 'base_url']`. */
export type Path = readonly (string | number)[]

/**
 * The report on a configuration: finds the places of problems, and tells which values have none so far, so that later
 * checks can rely on those.
 */
export class Report {
  readonly #source: Source
  readonly #findings: Finding[]
  readonly #unreadable: ReadonlySet<string>
  readonly #unsound = new Set<string>()
  /** The warnings, in no particular order. */
  readonly warnings: Finding[] = []

  /** Adds to `findings`. Values that could not be read count as unsound. */
  constructor(source: Source, findings: Finding[]) {
    this.#source = source
    this.#findings = findings
    this.#unreadable = new Set(source.spoiled())
    for (const pointer of this.#unreadable) this.#mark(pointer)
  }

  /**
   * Reports a fault that a schema found; `base` is the pointer of the checked value. A value that could not be read has
   * been reported already. A faulty name leaves the value under it and those around it sound.
   */
  fault({ pointer, on, message }: Fault, base = ''): void {
    const whole = base + pointer
    if (on === 'value' && this.#unreadable.has(whole)) return
    if (on !== 'name') this.#mark(whole)
    this.#add(whole, on === 'value' ? 'value' : 'key', message)
  }

  /** Reports a problem with a value. */
  value(path: Path, message: string): void {
    this.#mark(pointerOf(path))
    this.#add(pointerOf(path), 'value', message)
  }

  /** Reports a problem with a key, or with the whole entry under it. */
  key(path: Path, message: string): void {
    this.#mark(pointerOf(path))
    this.#add(pointerOf(path), 'key', message)
  }

  /** Reports a likely mistake, which does not keep the file from being used. */
  warn(path: Path, message: string): void {
    const pointer = pointerOf(path)
    this.warnings.push({
      at: this.#source.position(pointer, 'value'),
      message: `${this.#source.subject(pointer)}: ${message}`
    })
  }

  /** Whether there is no problem so far at this value or below it, so that it has the type of its schema. */
  sound(...path: Path): boolean {
    return !this.#unsound.has(pointerOf(path))
  }

  /** Whether a value stands in the file, rather than being a default. */
  written(path: Path): boolean {
    return this.#source.has(pointerOf(path))
  }

  /** Renders a value of the file for a message. */
  show(path: Path, value: unknown): string {
    return this.#source.origin().show(pointerOf(path), value)
  }

  /** The place of a value, as problems name it. */
  place(path: Path): string {
    return placeOf(this.#source.position(pointerOf(path), 'value'))
  }

  /** The folder to which a path in the file is relative: that of the file which names it. */
  folder(path: Path): string {
    return dirname(this.#source.file(pointerOf(path)))
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

/** How many problems are shown. The rest is only counted. */
const mostShown = 100

/** Sorts findings by file, in the order of `files` with others last, and by position, and leaves out repeated ones. */
export function problemsOf(files: readonly string[], findings: readonly Finding[]): Problem[] {
  const rank = new Map(files.map((file, index) => [file, index]))
  const start = { file: files[0]!, line: 0, column: 0 }
  const order = ({ at: a = start }: Finding, { at: b = start }: Finding): number =>
    (rank.get(a.file) ?? rank.size) - (rank.get(b.file) ?? rank.size) || a.line - b.line || a.column - b.column
  const problems = new Map<string, Problem>()
  for (const { at, message } of findings.toSorted(order)) {
    const place = at ? placeOf(at) : files[0]!
    problems.set(`${place} ${message}`, { place, message })
  }
  const all = [...problems.values()]
  const rest = all.length - mostShown
  return rest <= 0 ? all : [...all.slice(0, mostShown), { place: files[0]!, message: `and ${rest} more` }]
}

function pointerOf(path: Path): string {
  return path.reduce<string>(below, '')
}
