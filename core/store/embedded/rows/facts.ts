// What requests are searched by: their facts in columns, one block of records at a time, so that a search of a million
// records reads some fifty megabytes of numbers instead of a gigabyte of JSON.
import type { RecordRow } from './record-text.ts'
import type { RecordGist } from '../../requests.ts'

/**
 * Separates the texts of a dictionary, where it is escaped: names have no control characters, but those of models that
 * there are not come from clients, who send anything.
 */
const separator = '\x1f'
/** Separates the values of a fact that may have several. */
const listSeparator = '\n'

/** A text as a dictionary has it: without a separator, and different for each text. */
function escaped(text: string): string {
  return text.replaceAll('\x1e', '\x1e0').replaceAll(separator, '\x1e1')
}

/** The facts that are texts, in the order of a block's columns. `channels` and `tags` may have several values. */
const texts = [
  'tenant',
  'key',
  'model',
  'project',
  'member',
  'endpoint',
  'channels',
  'code',
  'outcome',
  'tags'
] as const
/** The facts that are numbers: `time` in Unix milliseconds, `cost` in nano-dollars, `duration` in milliseconds. */
const numbers = ['time', 'status', 'cost', 'duration'] as const

type TextFact = (typeof texts)[number]
type NumberFact = (typeof numbers)[number]

/** The facts of one record, in the order of the columns. An empty text stands for none. */
interface Facts {
  readonly texts: readonly string[]
  readonly numbers: readonly number[]
}

/** The columns of the table request that are facts. */
export type FactsRow = Pick<RecordRow, 'tenant' | 'key' | 'model' | 'time'>

/** The facts of a record: of its row, and of what it says beside that. */
export function factsOf({ tenant, key, model, time }: FactsRow, gist: RecordGist): Facts {
  const { project, member, endpoint, error_code: code, outcome, status, cost_nano, duration_ms } = gist
  return {
    texts: [
      tenant ?? '',
      key ?? '',
      model ?? '',
      project ?? '',
      member ?? '',
      endpoint,
      channelsOf(gist),
      code ?? '',
      outcome,
      tagsOf(gist)
    ],
    numbers: [Number(time), status, Number(cost_nano), duration_ms]
  }
}

function channelsOf({ channel, attempts }: RecordGist): string {
  return attempts.length < 2
    ? (attempts[0]?.channel ?? channel ?? '')
    : [...new Set(attempts.map((attempt) => attempt.channel))].join(listSeparator)
}

function tagsOf({ tags }: RecordGist): string {
  if (!tags) return ''
  return Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(listSeparator)
}

/** A search by facts. All conditions hold together. Bounds are included. */
export interface FactQuery {
  /** The value of a fact, or one of several values. */
  readonly texts: Partial<Readonly<Record<TextFact, string>>>
  readonly from: Partial<Readonly<Record<NumberFact, number>>>
  readonly to: Partial<Readonly<Record<NumberFact, number>>>
  /** Records with any of these are left out; absent: none is. */
  readonly not?: Without | undefined
}

/** What leaves a record out: the value of a text, and statuses from and to one. */
interface Without {
  readonly texts: Partial<Readonly<Record<TextFact, string>>>
  readonly status?: readonly [from: number, to: number] | undefined
}

/** Whether a record matches. */
export function matches(facts: Facts, query: FactQuery): boolean {
  const { texts: out = {}, status: [least, most] = nothing } = query.not ?? {}
  const status = facts.numbers[numbers.indexOf('status')]!
  return (
    texts.every((name, at) => query.texts[name] === undefined || has(name, facts.texts[at]!, query.texts[name])) &&
    !texts.some((name, at) => out[name] !== undefined && has(name, facts.texts[at]!, out[name])) &&
    !(status >= least && status <= most) &&
    numbers.every((name, at) => {
      const number = facts.numbers[at]!
      return number >= (query.from[name] ?? -Infinity) && number <= (query.to[name] ?? Infinity)
    })
  )
}

/** Bounds that nothing is within. */
const nothing = [Infinity, -Infinity] as const

/** Whether a fact has a value. A tag is asked for by its name alone, or as `name=value`. */
function has(name: TextFact, fact: string, wanted: string): boolean {
  if (name === 'tags') return fact.split(listSeparator).some((tag) => tag === wanted || tag.startsWith(`${wanted}=`))
  return name === 'channels' ? fact.split(listSeparator).includes(wanted) : fact === wanted
}

/**
 * The length of the head of an encoded block: the number of records, where the dictionary of each text begins, and
 * where the last one ends. It is a multiple of eight, because columns of numbers follow.
 */
const headBytes = Math.ceil((8 + (texts.length + 1) * 4) / 8) * 8

/** The least and the greatest value of each number of a block, in the order of {@link boundColumns}. */
export const boundColumns = numbers.flatMap((name) => [`${name}_from`, `${name}_to`])

/** The bounds of a search, in the order of {@link boundColumns}: a block matches when its bounds overlap them. */
export function boundsOf({ from, to }: FactQuery): number[] {
  return numbers.flatMap((name) => [to[name] ?? Number.MAX_VALUE, from[name] ?? -Number.MAX_VALUE])
}

/** Collects the facts of the records of one block, in the order of their numbers. */
export class FactBlock {
  readonly #places: number[] = []
  /** For each text, the values that occur, with their numbers from 0 on. */
  readonly #known = texts.map(() => new Map<string, number>())
  readonly #texts: number[][] = texts.map(() => [])
  readonly #numbers: number[][] = numbers.map(() => [])

  /** `place`: counts the records of the block from 0; there may be gaps. */
  add(place: number, facts: Facts): void {
    this.#places.push(place)
    for (let column = 0; column < texts.length; column++) {
      const known = this.#known[column]!
      const text = facts.texts[column]!
      let number = known.get(text)
      if (number === undefined) known.set(text, (number = known.size))
      this.#texts[column]!.push(number)
    }
    for (let column = 0; column < numbers.length; column++) this.#numbers[column]!.push(facts.numbers[column]!)
  }

  /** The values of {@link boundColumns}. */
  get bounds(): number[] {
    return this.#numbers.flatMap((column) => [Math.min(...column), Math.max(...column)])
  }

  /**
   * The bytes: the head, columns of 64-bit numbers, the places, columns of the 16-bit numbers of texts, and for each
   * text its dictionary.
   */
  encode(): Buffer {
    const columns = [
      ...this.#numbers.map((column) => Buffer.from(new Float64Array(column).buffer)),
      Buffer.from(new Uint16Array(this.#places).buffer),
      ...this.#texts.map((column) => Buffer.from(new Uint16Array(column).buffer))
    ]
    const dictionaries = this.#known.map((known) => Buffer.from([...known.keys()].map(escaped).join(separator)))
    const head = Buffer.alloc(headBytes)
    head.writeUInt32LE(this.#places.length, 0)
    let at = columns.reduce((length, column) => length + column.length, headBytes)
    for (const [column, dictionary] of dictionaries.entries()) {
      head.writeUInt32LE(at, 8 + column * 4)
      at += dictionary.length
    }
    head.writeUInt32LE(at, 8 + texts.length * 4)
    return Buffer.concat([head, ...columns, ...dictionaries])
  }
}

/** Searches an encoded block: returns the places of the records that match, the last one first. */
export function search(bytes: Uint8Array, query: FactQuery): number[] {
  const { rows, places } = matchesIn(bytes, query)
  return (rows ? rows.map((row) => places[row]!) : [...places]).reverse()
}

/** Searches an encoded block: calls `each` with the time and the status of every record that matches. */
export function tally(bytes: Uint8Array, query: FactQuery, each: (time: number, status: number) => void): void {
  const { rows, places, columns } = matchesIn(bytes, query)
  const [times, statuses] = [columns[numbers.indexOf('time')]!, columns[numbers.indexOf('status')]!]
  if (rows) for (const row of rows) each(times[row]!, statuses[row]!)
  else for (let row = 0; row < places.length; row++) each(times[row]!, statuses[row]!)
}

/** The records of an encoded block that match; `rows` is undefined when all do. */
interface Matches {
  readonly rows: readonly number[] | undefined
  readonly places: Uint16Array
  /** In the order of `numbers`. */
  readonly columns: readonly Float64Array[]
}

function matchesIn(bytes: Uint8Array, query: FactQuery): Matches {
  // Columns of numbers must begin at a multiple of eight bytes.
  const { buffer, byteOffset: at } = bytes.byteOffset % 8 === 0 ? bytes : new Uint8Array(bytes)
  const head = new DataView(buffer as ArrayBuffer, at, headBytes)
  const count = head.getUint32(0, true)
  const placesAt = at + headBytes + numbers.length * count * 8
  const places = new Uint16Array(buffer, placesAt, count)
  const columns = numbers.map((_, column) => new Float64Array(buffer, at + headBytes + column * count * 8, count))
  const none = { rows: [], places, columns }
  // The rows that fit the conditions so far; undefined for all of them.
  let rows: number[] | undefined
  for (const { name, column, value, wanted } of asked(query)) {
    const [from, to] = [head.getUint32(8 + column * 4, true), head.getUint32(12 + column * 4, true)]
    const dictionary = Buffer.from(buffer as ArrayBuffer, at + from, to - from)
    // Most blocks do not have a rare value at all, and need not be looked into.
    const { fitting, all } = dictionary.indexOf(value) === -1 ? absent : numbersOf(name, dictionary.toString(), value)
    if (fitting.length === 0 && !wanted) continue
    if (wanted ? fitting.length === 0 : all) return none
    const values = new Uint16Array(buffer, placesAt + (column + 1) * count * 2, count)
    const [only] = fitting
    const fits =
      fitting.length === 1 ? (row: number) => values[row] === only : (row: number) => fitting.includes(values[row]!)
    rows = rowsThat(wanted ? fits : (row) => !fits(row), count, rows)
    if (rows.length === 0) return none
  }
  for (const [column, name] of numbers.entries()) {
    const { [name]: from = -Infinity } = query.from
    const { [name]: to = Infinity } = query.to
    if (from === -Infinity && to === Infinity) continue
    const values = columns[column]!
    rows = rowsThat((row) => values[row]! >= from && values[row]! <= to, count, rows)
  }
  if (query.not?.status) {
    const [least, most] = query.not.status
    const values = columns[numbers.indexOf('status')]!
    rows = rowsThat((row) => values[row]! < least || values[row]! > most, count, rows)
  }
  return { rows, places, columns }
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
