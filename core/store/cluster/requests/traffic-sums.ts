// What the records of one gateway add up to by minute and hour, for rows that are its own.
import { randomUUID } from 'node:crypto'
import { cellsOf, passedOf, placeOf, Traffic, trafficSpans } from '../../traffic.ts'
import type { Passed, TrafficPlace, TrafficSpan } from '../../traffic.ts'
import type { RequestRecord } from '../../requests.ts'
import type { Transaction } from '../database/lane.ts'
import { plain } from '../database/text.ts'

/** The most sums in memory. Then a new series begins. */
const mostKept = 20_000

interface Cell {
  readonly span: TrafficSpan
  readonly scope: string
  readonly time: number
  readonly model: string
  readonly channel: string
  readonly traffic: Traffic
}

/** A record, and when it arrived, in Unix milliseconds. */
export interface Counted {
  readonly record: RequestRecord
  readonly time: number
}

/** A row of the table traffic, whose numbers JSON can have. */
export type TrafficRow = Readonly<Record<string, string | number>>

/** The sums of one gateway. */
export class TrafficSums {
  /** Rows belong to a series. Only who adds to one writes it. */
  #series = randomUUID()
  readonly #cells = new Map<string, Cell>()
  /** The sums of each place and minute. */
  readonly #places = new Map<string, readonly Cell[]>()

  /**
   * Adds records, and takes those away that were replaced: other gateways may have added them, so sums of this one may
   * be negative. Returns the rows that change, as they must be written.
   */
  add(records: readonly Counted[], gone: readonly Counted[]): TrafficRow[] {
    if (this.#cells.size > mostKept) this.begin()
    const changed = new Set<Cell>()
    const count = ({ record, time }: Counted, change: (traffic: Traffic, passed: Passed) => void): void => {
      const passed = passedOf(record)
      for (const cell of this.#cellsAt(placeOf(record.tenant, record.model, passed), time)) {
        change(cell.traffic, passed)
        changed.add(cell)
      }
    }
    for (const one of records) count(one, (traffic, passed) => traffic.add(passed))
    for (const one of gone) count(one, (traffic, passed) => traffic.remove(passed))
    return [...changed].map(({ traffic, ...place }) => ({ ...place, series: this.#series, ...traffic.stored }))
  }

  /** Writes the rows that change with these records. */
  async write(transaction: Transaction, records: readonly Counted[], gone: readonly Counted[]): Promise<void> {
    if (records.length + gone.length === 0) return
    await transaction.query(
      `insert into sluice.traffic (span, scope, time, model, channel, series, requests, codes, input, output, cost, first)
       select * from json_to_recordset($1) r(span text, scope text, time bigint, model text, channel text, series uuid,
         requests bigint, codes text, input bigint, output bigint, cost numeric, first text)
       on conflict (span, scope, time, model, channel, series) do update set requests = excluded.requests,
         codes = excluded.codes, input = excluded.input, output = excluded.output, cost = excluded.cost,
         first = excluded.first`,
      [JSON.stringify(this.add(records, gone))]
    )
  }

  /** Begins a new series, when nobody knows whether the last rows were written: those stay as they are. */
  begin(): void {
    this.#series = randomUUID()
    this.#cells.clear()
    this.#places.clear()
  }

  /** What a request that is counted at a place and a time adds to. Each minute is of one hour. */
  #cellsAt(place: TrafficPlace, time: number): readonly Cell[] {
    const name = JSON.stringify([Math.floor(time / trafficSpans.minute), place.tenant, place.model, place.channel])
    let cells = this.#places.get(name)
    if (!cells) {
      const spans = Object.keys(trafficSpans) as TrafficSpan[]
      cells = spans.flatMap((span) =>
        cellsOf(place).map(([scope, model, channel]) =>
          this.#cell(span, scope, Math.floor(time / trafficSpans[span]), model, channel)
        )
      )
      this.#places.set(name, cells)
    }
    return cells
  }

  #cell(span: TrafficSpan, given: string, time: number, modelGiven: string, channel: string): Cell {
    const [scope, model] = [plain(given), plain(modelGiven)]
    const name = JSON.stringify([span, scope, time, model, channel])
    let cell = this.#cells.get(name)
    if (!cell) this.#cells.set(name, (cell = { span, scope, time, model, channel, traffic: new Traffic() }))
    return cell
  }
}
