// Checks request records by themselves (I11, I16), and that traffic is what they add up to (I20). They are read in the
// order of their arrival, so that the sums of one hour at a time are in memory.
import type { Report } from '../../../embedded/care/verify/invariants.ts'
import type { Progress } from '../../../embedded/care/verify/checking.ts'
import type { Row } from '../../../embedded/files/sqlite.ts'
import type { RequestRecord } from '../../../requests.ts'
import { cellsOf, passedOf, placeOf, Traffic, trafficKept, trafficSpans } from '../../../traffic.ts'
import type { StoredTraffic, TrafficSpan } from '../../../traffic.ts'
import type { Transaction } from '../../database/lane.ts'
import { plain } from '../../database/text.ts'
import { columnsOf, lineColumns } from '../../requests/line.ts'
import { rowsOf, stride } from './rows.ts'

const spans = Object.keys(trafficSpans) as TrafficSpan[]
const columns = ['time', 'request_id', ...Object.keys(lineColumns)] as (keyof ReturnType<typeof columnsOf>)[]

/** Checks I11, I16 and I20. `now` is in Unix milliseconds: traffic is kept for so long before it. */
export async function checkRecords(
  transaction: Transaction,
  now: number,
  report: Report,
  progress: Progress
): Promise<void> {
  const { rows } = await transaction.query<{ count: bigint; oldest: bigint | null }>(
    'select count(*) as count, min(time) as oldest from sluice.request'
  )
  const { count: all, oldest } = rows[0]!
  // Without a record nothing is known of what traffic should be.
  if (oldest === null) return progress('request', 0)
  const due = new Due(transaction, Number(oldest), now, report)
  let count = 0
  for await (const row of rowsOf(transaction, `select ${columns.join(', ')} from sluice.request order by time`)) {
    const record = checkRecord(row, report)
    if (record) await due.add(Number(row['time']), record)
    if (++count % stride === 0) progress('request', count, Number(all))
  }
  await due.end()
  progress('request', count, count)
}

/** Whether what a record is searched by is what its JSON says. Returns the record, unless it is none. */
function checkRecord(row: Row, report: Report): RequestRecord | undefined {
  const name = `request ${row['request_id']}`
  let record: RequestRecord
  let written: ReturnType<typeof columnsOf>
  try {
    const json = row['json'] as string
    record = JSON.parse(json) as RequestRecord
    written = columnsOf({ record, json, time: Date.parse(record.time) || 0 })
  } catch {
    report('I16', name, 'is not what was written')
    return undefined
  }
  if (typeof record.cost_nano !== 'string' || typeof record.cost_usd !== 'string') {
    report('I11', name, 'has money that is no decimal string')
    return undefined
  }
  const other = columns.filter((column) => textOf(written[column]) !== textOf(row[column]))
  if (other.length > 0) report('I16', name, `is searched by another ${other.join(', ')} than it has`)
  return record
}

function textOf(value: unknown): string {
  return Array.isArray(value) ? JSON.stringify(value) : String(value)
}

/** What the records of an hour add up to, and when that hour is. */
class Due {
  readonly #transaction: Transaction
  readonly #report: Report
  /** The first minute and hour that are compared: of earlier ones records or sums may be gone. */
  readonly #from: Readonly<Record<TrafficSpan, number>>
  readonly #sums = new Map<string, Traffic>()
  #hour: number

  constructor(transaction: Transaction, oldest: number, now: number, report: Report) {
    this.#transaction = transaction
    this.#report = report
    const from = (span: TrafficSpan): number =>
      Math.floor(Math.max(oldest, now - trafficKept[span]) / trafficSpans[span]) + 1
    this.#from = { minute: from('minute'), hour: from('hour') }
    this.#hour = Math.floor(oldest / trafficSpans.hour)
  }

  async add(time: number, record: RequestRecord): Promise<void> {
    const hour = Math.floor(time / trafficSpans.hour)
    if (hour > this.#hour) await this.#compare(hour)
    const passed = passedOf(record)
    for (const span of spans) {
      const at = Math.floor(time / trafficSpans[span])
      if (at < this.#from[span]) continue
      for (const [scope, model, channel] of cellsOf(placeOf(record.tenant, record.model, passed)))
        sumOf(this.#sums, nameOf(span, at, plain(scope), plain(model), channel)).add(passed)
    }
  }

  /** Compares what is left, and whatever traffic there is behind it. */
  end(): Promise<void> {
    return this.#compare(Number.MAX_SAFE_INTEGER)
  }

  /** Compares the hours until another one, which is not included and is the next one to be added up. */
  async #compare(until: number): Promise<void> {
    const found = new Map<string, Traffic>()
    for (const span of spans) {
      const each = trafficSpans.hour / trafficSpans[span]
      const { rows } = await this.#transaction.query<Row>(
        `select scope, time, model, channel, requests, codes, input, output, cost::text as cost from sluice.traffic
         where span = $1 and time >= $2 and time < $3`,
        [span, Math.max(this.#from[span], this.#hour * each), Math.min(until * each, Number.MAX_SAFE_INTEGER)]
      )
      for (const row of rows) {
        const { scope, model, channel } = row as Record<string, string>
        sumOf(found, nameOf(span, Number(row['time']), scope!, model!, channel!)).join(trafficOf(row))
      }
    }
    for (const name of new Set([...found.keys(), ...this.#sums.keys()])) {
      const [has, makes] = [sumsIn(found.get(name)), sumsIn(this.#sums.get(name))]
      if (has !== makes) this.#report('I20', `traffic ${name}`, `has ${has} where the records make ${makes}`)
    }
    this.#sums.clear()
    this.#hour = until
  }
}

/** `minute 2026-11-21T12:04 tenant:acme gpt-5 openai`. */
function nameOf(span: TrafficSpan, time: number, ...place: readonly string[]): string {
  const at = new Date(time * trafficSpans[span]).toISOString().slice(0, 16)
  return `${span} ${at} ${place.filter((text) => text !== '').join(' ') || 'all'}`
}

function sumOf(sums: Map<string, Traffic>, name: string): Traffic {
  let sum = sums.get(name)
  if (!sum) sums.set(name, (sum = new Traffic()))
  return sum
}

function trafficOf({ requests, codes, input, output, cost }: Row): Traffic {
  const numbers = { requests: Number(requests), input: Number(input), output: Number(output) }
  return Traffic.of({ ...numbers, codes, cost, first: '' } as StoredTraffic)
}

/** Sums as text. How soon answers began is not among them: before 2026-11-28 that of a corrected record stayed. */
function sumsIn({ requests, codes, input, output, cost }: Traffic = new Traffic()): string {
  const errors = [...codes].map(([code, count]) => `${code} ${count}`).sort()
  return `${requests} requests, ${input} and ${output} tokens, ${cost} nano-dollars, errors: ${errors.join(', ') || 'none'}`
}
