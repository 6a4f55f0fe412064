// Journals of segments for tests: written by the log itself, and read as a start reads them.
import { Fold } from '../../../../../core/store/embedded/segments/fold.ts'
import { prepareFolder } from '../../../../../core/store/embedded/segments/folder.ts'
import { SegmentLog } from '../../../../../core/store/embedded/segments/segment-log.ts'
import type { LogOptions } from '../../../../../core/store/embedded/segments/segment-log.ts'
import { clearFolder, openJournal } from '../../../../../core/store/embedded/segments/state.ts'
import type { OpenedJournal } from '../../../../../core/store/embedded/segments/state.ts'
import { entryColumns, emptyBatch, holdColumns } from '../../../../../core/store/embedded/rows/batch.ts'
import type { Batch } from '../../../../../core/store/embedded/rows/batch.ts'
import { FrameEncoder } from '../../../../../core/store/embedded/log/frame.ts'
import type { Value } from '../../../../../core/store/embedded/files/sqlite.ts'
import { eventually } from '../../../../kit/probe.ts'
import { noon } from '../sample.ts'

/** Small segments, so that a test has many. */
export const small = { least: 16 * 1024, most: 16 * 1024 }

/** A history that follows from the number of a start. */
export function historyOf(boot: number): string {
  return boot.toString(16).padStart(16, 'a')
}

/** A batch in which a hold begins, and the one that began in the batch before ends with a charge of its number. */
export function batchOf(number: number, { text = 0, more = {} }: { text?: number; more?: Partial<Batch> } = {}): Batch {
  const scopes = '{"tenant:acme":"month","key:laptop":["day","hour"]}'
  const hold: Record<(typeof holdColumns)[number], Value> = {
    id: number,
    request_id: `request ${number}`,
    part: '',
    scopes,
    amount: 1000n,
    model: 'gpt-5',
    price_version: 'p:1',
    input_units: 10,
    max_out: 100,
    dispatched: 0,
    channel: null,
    delivered_units: 0,
    endpoint: 'chat',
    client_protocol: 'openai-chat',
    streamed: 0,
    ts_ms: noon + number * 60_000,
    pieces: null,
    tags: null,
    cost_price: null
  }
  const entry: Record<(typeof entryColumns)[number], Value> = {
    kind: 'settle',
    request_id: `request ${number - 1}`,
    part: '',
    class: 'terminal',
    scopes,
    amount: BigInt(number),
    reserved: 1000n,
    usage_json: `{"output":${number},"text":"${'x'.repeat(text)}"}`,
    model: 'gpt-5',
    channel: 'openai',
    price_version: 'p:1',
    source: 'upstream',
    ts_ms: noon + (number - 1) * 60_000,
    tags: null,
    cost: null,
    cost_price: null
  }
  const batch = emptyBatch(number, noon + number)
  batch.opened = holdColumns.map((name) => hold[name])
  if (number > 1) batch.entries = entryColumns.map((name) => entry[name])
  if (number === 1) batch.prices = ['p:1', '{}']
  return { ...batch, ...more }
}

/** A start that writes a journal. */
export class Writing {
  readonly opened: OpenedJournal
  readonly log: SegmentLog
  readonly boot: number
  readonly #encoder: FrameEncoder

  constructor(folder: string, options: Partial<LogOptions> = {}) {
    prepareFolder(folder)
    this.opened = openJournal(folder, folder, options.durability ?? 'process')
    clearFolder(folder, this.opened)
    const { batch, boot, history } = this.opened.fold.place
    this.boot = boot + 1
    const own = historyOf(this.boot)
    this.#encoder = new FrameEncoder(own)
    const start = { boot: this.boot, history: own, previous: history, after: batch, ordinal: this.opened.ordinal }
    this.log = new SegmentLog(folder, start, { durability: 'process', sizes: small, ...options })
  }

  /** The last batch that was acknowledged. */
  get last(): number {
    return this.log.last
  }

  /** Appends a batch; rejects when its write failed. */
  append(batch: Batch): Promise<void> {
    return new Promise((resolve, reject) =>
      this.log.append(Buffer.from(this.#encoder.encode(batch)), batch.number, (error) =>
        error ? reject(error) : resolve()
      )
    )
  }

  /** Appends so many batches, each when the next segment is ready: so segments have the size that they are to have. */
  async go(count: number, text = 300): Promise<void> {
    for (let i = 0; i < count; i++) {
      await eventually(() => this.log.ready)
      await this.append(batchOf(this.last + 1, { text }))
    }
  }
}

/** The state after the batches up to `last`, of which `starts` says at which one each start began. */
export function stateAfter(last: number, starts: readonly number[], text = 300): Fold {
  const fold = new Fold()
  for (let number = 1; number <= last; number++) {
    const boot = starts.filter((first) => first <= number).length
    fold.add(batchOf(number, { text }), { boot, history: historyOf(boot) })
  }
  return fold
}

/** All that a fold says, to compare. */
export function shown(fold: Fold): object {
  return {
    place: fold.place,
    balances: [...fold.balances]
      .map(({ scope, window, ...sum }) => [`${scope} ${window}`, sum] as const)
      .filter(([, { posted, pending }]) => posted !== 0n || pending !== 0n)
      .sort(([one], [other]) => (one < other ? -1 : 1)),
    holds: [...fold.holds],
    parts: [...fold.holds.parts],
    prices: [...fold.prices],
    documents: [...fold.documents],
    works: [...fold.works],
    room: [...fold.room]
  }
}
