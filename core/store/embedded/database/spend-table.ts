// Writes spend to the database: in the transaction in which its entries are written, or anew from the whole journal.
import { entryColumns } from '../rows/batch.ts'
import { readHead } from './head.ts'
import { isReadSide } from './read-side.ts'
import { commonUnits, monthOf, mostCost, mostSummed, spenderOf, SpendSums } from './spend-sums.ts'
import type { SpendCell, SpendPlace } from './spend-sums.ts'
import { readRows } from '../files/sqlite.ts'
import type { Database, Statement, Value } from '../files/sqlite.ts'
import { readVolume, VolumeError, volumeFolder, volumeOf } from '../journal/volume.ts'
import { JournalReader } from '../segments/journal-reader.ts'

/** How many sums are gathered in memory while spend is added up anew, and entries added between two calls of `each`. */
const gathered = 10_000

/** The sums of a row. */
export const sumColumns = ['requests', 'charge', 'failed', 'cost', ...commonUnits]

/** What a sum of one row is at most, units of other classes too; undefined for requests and charges. */
export function mostOf(name: string): bigint | undefined {
  if (name === 'requests' || name === 'charge') return undefined
  return name === 'failed' || name === 'cost' ? mostCost : BigInt(mostSummed)
}

/** The spend of one database, through one connection. */
export class SpendTable {
  readonly #sums = new SpendSums()
  /** The ids of spenders, by their scopes and tags. */
  readonly #spenders = new Map<string, number | bigint>()
  readonly #find: Statement
  readonly #begin: Statement
  readonly #days: Span
  readonly #months: Span

  constructor(database: Database) {
    const who = ['tenant', 'project', 'member', 'key', 'tags']
    const same = who.map((name) => `${name} = ?`).join(' AND ')
    this.#find = database.prepare(`SELECT id FROM spender WHERE ${same}`)
    this.#begin = database.prepare(`INSERT INTO spender (${who.join(', ')}) VALUES (?, ?, ?, ?, ?)`)
    this.#days = new Span(database, 'day')
    this.#months = new Span(database, 'month')
  }

  /** Adds an entry, whose columns are those of `entryColumns` from index `at` on. */
  add(entries: readonly Value[], at: number): void {
    this.#sums.add(entries, at)
  }

  /** Writes what was added since the last call. */
  flush(): void {
    for (const cell of this.#sums.take()) {
      const { day, model, channel, price, costPrice } = cell.place
      const place = [this.#spender(cell.place), model, channel, price, costPrice]
      this.#days.add([day, ...place], cell)
      this.#months.add([monthOf(day), ...place], cell)
    }
  }

  /**
   * Adds all entries of the journal, with the sealed ones. `each` is called with how many were added.
   * @throws Error when the file of a volume is missing or was changed
   */
  fill(database: Database, file: string, each: (entries: number) => void = () => {}): void {
    let added = 0
    const add = (row: Readonly<Record<string, Value>>): void => {
      this.add(
        entryColumns.map((name) => row[name]!),
        0
      )
      if (this.#sums.size > gathered) this.flush()
      if (++added % gathered === 0) each(added)
    }
    if (isReadSide(database)) {
      const { seq } = readHead(database)
      for (const entry of new JournalReader(volumeFolder(file)).entries()) {
        if (Number(entry['seq']) > seq) break
        add(entry)
      }
    }
    for (const row of readRows(database, 'SELECT * FROM volume ORDER BY first')) {
      const volume = volumeOf(row)
      try {
        for (const entry of readVolume(volumeFolder(file), volume)) add(entry)
      } catch (error) {
        if (!(error instanceof VolumeError)) throw error
        throw new Error(
          `spend cannot be added up: the journal from row ${volume.first} to ${volume.last} ${error.message}`
        )
      }
    }
    const rest = 'SELECT * FROM journal WHERE seq > (SELECT coalesce(max(last), 0) FROM volume) ORDER BY seq'
    for (const row of readRows(database, rest)) add(row)
    this.flush()
    each(added)
  }

  #spender(place: SpendPlace): number | bigint {
    const name = `${place.scopes}\0${place.tags}`
    let id = this.#spenders.get(name)
    if (id === undefined) {
      const { tenant, project, member, key, tags } = spenderOf(place)
      const who = [tenant, project, member, key, tags]
      id = (this.#find.get(...who)?.['id'] as number | undefined) ?? this.#begin.run(...who).lastInsertRowid
      this.#spenders.set(name, id)
    }
    return id
  }
}

/** One of the two tables. */
class Span {
  readonly #add: Statement
  readonly #units: Statement

  constructor(database: Database, span: 'day' | 'month') {
    const place = [span, 'spender', 'model', 'channel', 'price', 'cost_price']
    const all = [...place, ...sumColumns, 'units']
    const grown = sumColumns.map((name) => {
      const sum = `${name} + excluded.${name}`
      const most = mostOf(name)
      return `${name} = ${most === undefined ? sum : `min(${sum}, ${most})`}`
    })
    this.#add = database.prepare(
      `INSERT INTO spend_${span} (${all.join(', ')}) VALUES (${all.map(() => '?').join(', ')})
       ON CONFLICT DO UPDATE SET ${grown.join(', ')}, units = coalesce(excluded.units, units)`
    )
    this.#units = database.prepare(
      `SELECT units FROM spend_${span} WHERE ${place.map((name) => `${name} = ?`).join(' AND ')}`
    )
  }

  add(place: readonly Value[], { requests, charge, failed, cost, units }: SpendCell): void {
    const common = commonUnits.map((name) => units[name] ?? 0)
    this.#add.run(...place, requests, charge, failed, cost, ...common, this.#others(place, units))
  }

  /** The units of other classes after the change, as JSON; null when they do not change. */
  #others(place: readonly Value[], units: Readonly<Record<string, number>>): string | null {
    const others = Object.entries(units).filter(([name]) => !commonUnits.includes(name))
    if (others.length === 0) return null
    const before = this.#units.get(...place)?.['units'] as string | null | undefined
    const sums = JSON.parse(before ?? '{}') as Record<string, number>
    for (const [name, number] of others) sums[name] = Math.min((sums[name] ?? 0) + number, mostSummed)
    return JSON.stringify(sums)
  }
}
