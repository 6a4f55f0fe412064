// The facts of the records of one block, in columns, so that a search of a million records reads some thirty megabytes
// instead of a gigabyte of JSON.
import { has, numbers, texts } from './facts.ts'
import type { FactQuery, Facts, TextFact } from './facts.ts'
import { columnAt, narrowed, readShape, shapeBytes, writeShape } from './narrow-column.ts'
import type { Shape } from './narrow-column.ts'

/**
 * Separates the texts of a dictionary, where it is escaped: names have no control characters, but those of models that
 * there are not come from clients, who send anything.
 */
const separator = '\x1f'

/** A text as a dictionary has it: without a separator, and different for each text. */
function escaped(text: string): string {
  if (!text.includes('\x1e') && !text.includes(separator)) return text
  return text.replaceAll('\x1e', '\x1e0').replaceAll(separator, '\x1e1')
}

/**
 * The head of an encoded block: the number of records, the format, where the dictionary of each text begins and where
 * the last one ends, and the shape of each column. Columns begin at multiples of eight bytes.
 */
const head = { count: 0, format: 4, dictionaries: 8, shapes: aligned(8 + (texts.length + 1) * 4) } as const
const format = 1
/** Numbers, places, texts. */
const columnCount = numbers.length + 1 + texts.length
const placeColumn = numbers.length
const headBytes = head.shapes + columnCount * shapeBytes

/** In the first format, which has no shapes, columns of all blocks have these, and places are not less their rows. */
const formerShapes: readonly Shape[] = Array.from({ length: columnCount }, (_, column) => ({
  width: column < numbers.length ? 8 : 2,
  base: 0,
  scale: 1
}))

function aligned(at: number): number {
  return Math.ceil(at / 8) * 8
}

/** Collects the facts of the records of one block, in the order of their numbers. */
export class FactBlock {
  readonly #places: number[] = []
  /** For each text, the values that occur, with their numbers from 0 on. */
  readonly #known = texts.map(() => new Map<string, number>())
  /** The text that was added last, and its number: the next one is often the same. */
  readonly #last: string[] = texts.map(() => '')
  readonly #lastNumber: number[] = texts.map(() => -1)
  readonly #texts: number[][] = texts.map(() => [])
  readonly #numbers: number[][] = numbers.map(() => [])

  /** `place`: counts the records of the block from 0; there may be gaps. */
  add(place: number, facts: Facts): void {
    this.#places.push(place)
    for (let column = 0; column < texts.length; column++) {
      const text = facts.texts[column]!
      if (text !== this.#last[column] || this.#lastNumber[column] === -1) this.#look(column, text)
      this.#texts[column]!.push(this.#lastNumber[column]!)
    }
    for (let column = 0; column < numbers.length; column++) this.#numbers[column]!.push(facts.numbers[column]!)
  }

  /** Finds the number of a text, or gives it the next one. */
  #look(column: number, text: string): void {
    const known = this.#known[column]!
    let number = known.get(text)
    if (number === undefined) known.set(text, (number = known.size))
    this.#last[column] = text
    this.#lastNumber[column] = number
  }

  /** The least and the greatest value of each number, in the order of `boundColumns`. */
  get bounds(): number[] {
    return this.#numbers.flatMap((column) => [Math.min(...column), Math.max(...column)])
  }

  /** The bytes: the head, the columns, and for each text its dictionary. */
  encode(): Buffer {
    // Most blocks have no gap, and places that are all the same less their rows.
    const places = this.#places.map((place, row) => place - row)
    const columns = [...this.#numbers, places, ...this.#texts].map(narrowed)
    const dictionaries = this.#known.map((known) => Buffer.from([...known.keys()].map(escaped).join(separator)))
    const first = Buffer.alloc(headBytes)
    first.writeUInt32LE(this.#places.length, head.count)
    first.writeUInt32LE(format, head.format)
    for (const [column, { shape }] of columns.entries()) writeShape(first, shape, head.shapes + column * shapeBytes)
    let at = columns.reduce((length, { bytes }) => length + aligned(bytes.length), headBytes)
    for (const [column, dictionary] of dictionaries.entries()) {
      first.writeUInt32LE(at, head.dictionaries + column * 4)
      at += dictionary.length
    }
    first.writeUInt32LE(at, head.dictionaries + texts.length * 4)
    const filled = columns.flatMap(({ bytes }) => [bytes, Buffer.alloc(aligned(bytes.length) - bytes.length)])
    return Buffer.concat([first, ...filled, ...dictionaries])
  }
}

/** Searches an encoded block: returns the places of the records that match, the last one first. */
export function search(bytes: Uint8Array, query: FactQuery): number[] {
  const block = new EncodedBlock(bytes)
  const rows = block.rowsThatMatch(query)
  const place = block.places
  return Array.from({ length: rows?.length ?? block.count }, (_, i) => place(rows ? rows[i]! : i)).reverse()
}

/** Searches an encoded block: calls `each` with the time and the status of every record that matches. */
export function tally(bytes: Uint8Array, query: FactQuery, each: (time: number, status: number) => void): void {
  const block = new EncodedBlock(bytes)
  const rows = block.rowsThatMatch(query)
  const [time, status] = [block.column(numbers.indexOf('time')), block.column(numbers.indexOf('status'))]
  const count = rows?.length ?? block.count
  for (let i = 0; i < count; i++) {
    const row = rows ? rows[i]! : i
    each(time(row), status(row))
  }
}

/** A block as it was encoded. */
class EncodedBlock {
  readonly count: number
  readonly #buffer: ArrayBuffer
  readonly #at: number
  readonly #view: DataView
  readonly #former: boolean
  readonly #shapes: readonly Shape[]
  /** Where each column begins. */
  readonly #columns: readonly number[]

  constructor(bytes: Uint8Array) {
    // Columns must begin at multiples of eight bytes.
    const { buffer, byteOffset: at } = bytes.byteOffset % 8 === 0 ? bytes : new Uint8Array(bytes)
    this.#buffer = buffer as ArrayBuffer
    this.#at = at
    const view = (this.#view = new DataView(this.#buffer, at, bytes.byteLength))
    const count = (this.count = view.getUint32(head.count, true))
    const former = (this.#former = view.getUint32(head.format, true) === 0)
    this.#shapes = former
      ? formerShapes
      : Array.from({ length: columnCount }, (_, column) => readShape(view, head.shapes + column * shapeBytes))
    let begin = at + (former ? head.shapes : headBytes)
    this.#columns = this.#shapes.map(({ width }) => {
      const column = begin
      begin += former ? count * width : aligned(count * width)
      return column
    })
  }

  /** What gives the values of a column by their rows. */
  column(column: number): (row: number) => number {
    return columnAt(this.#buffer, this.#columns[column]!, this.count, this.#shapes[column]!)
  }

  /** What gives the places of records by their rows. */
  get places(): (row: number) => number {
    const place = this.column(placeColumn)
    return this.#former ? place : (row) => row + place(row)
  }

  /** The rows of the records that match; undefined when all do. */
  rowsThatMatch(query: FactQuery): readonly number[] | undefined {
    const { count } = this
    // The rows that fit the conditions so far; undefined for all of them.
    let rows: number[] | undefined
    for (const { name, column, value, wanted } of asked(query)) {
      const dictionary = this.#dictionary(column)
      // Most blocks do not have a rare value at all, and need not be looked into.
      const { fitting, all } = dictionary.indexOf(value) === -1 ? absent : numbersOf(name, dictionary.toString(), value)
      if (fitting.length === 0 && !wanted) continue
      if (wanted ? fitting.length === 0 : all) return []
      if (wanted && all) continue
      const values = this.column(placeColumn + 1 + column)
      const [only] = fitting
      const fits =
        fitting.length === 1 ? (row: number) => values(row) === only : (row: number) => fitting.includes(values(row))
      rows = rowsThat(wanted ? fits : (row) => !fits(row), count, rows)
      if (rows.length === 0) return rows
    }
    for (const [column, name] of numbers.entries()) {
      const { [name]: from = -Infinity } = query.from
      const { [name]: to = Infinity } = query.to
      if (from === -Infinity && to === Infinity) continue
      const values = this.column(column)
      rows = rowsThat((row) => values(row) >= from && values(row) <= to, count, rows)
    }
    if (query.not?.status) {
      const [least, most] = query.not.status
      const values = this.column(numbers.indexOf('status'))
      rows = rowsThat((row) => values(row) < least || values(row) > most, count, rows)
    }
    return rows
  }

  #dictionary(column: number): Buffer {
    const at = head.dictionaries + column * 4
    const [from, to] = [this.#view.getUint32(at, true), this.#view.getUint32(at + 4, true)]
    return Buffer.from(this.#buffer, this.#at + from, to - from)
  }
}

const absent = { fitting: [], all: false } as const

/** The numbers of the facts of a dictionary that have a value, and whether all have it. */
function numbersOf(
  name: TextFact,
  dictionary: string,
  value: string
): { readonly fitting: readonly number[]; readonly all: boolean } {
  if (name === 'tags' || name === 'channels') {
    const facts = dictionary.split(separator)
    const fitting = facts.flatMap((fact, number) => (has(name, fact, value) ? [number] : []))
    return { fitting, all: fitting.length === facts.length }
  }
  // Others are the value as a whole. There are up to a thousand, of which none is taken apart.
  const bounded = `${separator}${dictionary}${separator}`
  const at = bounded.indexOf(`${separator}${value}${separator}`)
  if (at === -1) return absent
  let number = 0
  for (let place = 0; place < at; place = bounded.indexOf(separator, place + 1)) number++
  return { fitting: [number], all: dictionary === value }
}

/** The texts that a search asks for, and those that it leaves out, in the order of the columns. */
function asked({ texts: given, not }: FactQuery): readonly {
  readonly name: TextFact
  readonly column: number
  /** As the dictionary has it. */
  readonly value: string
  /** False for what is left out. */
  readonly wanted: boolean
}[] {
  return texts.flatMap((name, column) =>
    [given[name], not?.texts[name]].flatMap((value, place) =>
      value === undefined ? [] : [{ name, column, value: escaped(value), wanted: place === 0 }]
    )
  )
}

/** Those of these rows, or of the first `count`, that fit. */
function rowsThat(fits: (row: number) => boolean, count: number, rows: readonly number[] | undefined): number[] {
  if (rows) return rows.filter(fits)
  const found: number[] = []
  for (let row = 0; row < count; row++) if (fits(row)) found.push(row)
  return found
}
