// Makes a journal without gaps of what is left of one: what is whole up to the first gap stays as it is, and each batch
// behind it stands for itself. Says what is missing, as far as anything knows.
import { randomBytes } from 'node:crypto'
import { daysOf } from '../../../window.ts'
import type { Value } from '../../files/sqlite.ts'
import { historyBytes } from '../../log/segment.ts'
import { documentColumns, holdColumns, touchColumns, workColumns } from '../../rows/batch.ts'
import type { Batch } from '../../rows/batch.ts'
import type { Start } from '../../segments/chain.ts'
import type { Fold } from '../../segments/fold.ts'
import { SegmentWriting } from '../segment-writing.ts'
import type { Fields } from '../segment-writing.ts'
import { Share } from '../share.ts'
import type { Remains } from './remains.ts'
import type { Testimony, Witness } from './witness.ts'

/** Batches that are missing, both ends included. */
export interface Gap {
  readonly first: number
  readonly last: number
  /** The row of the mended journal behind which entries are missing. */
  readonly row: number
  /** When the batches before and behind were written, in Unix milliseconds; undefined where nothing is behind. */
  readonly since: number
  readonly until: number | undefined
}

/** What a balance lacks, in nano-dollars. */
export interface Lack {
  readonly scope: string
  readonly window: string
  readonly amount: bigint
}

/** What is lost. */
export interface Loss {
  readonly gaps: readonly Gap[]
  /** How many entries of the journal are missing; undefined where nothing says. */
  readonly entries: number | undefined
  /** The balances that lack something; undefined where nothing says, as then any may. */
  readonly balances: readonly Lack[] | undefined
}

/** What came of it. */
export interface Mended {
  /** The files that have what is in front of the first damage. */
  readonly kept: readonly string[]
  /** The last batch of them. */
  readonly keptTo: number
  /** The files that were not whole, or did not go on where the one before them ends, with what is wrong. */
  readonly broken: readonly { readonly file: string; readonly text: string }[]
  readonly saved: Share
  /** What is of a copy that went on by itself. */
  readonly foreign: Share
  readonly loss: Loss
}

const [idColumn, requestColumn, partColumn, priceColumn] = (['id', 'request_id', 'part', 'price_version'] as const).map(
  (name) => holdColumns.indexOf(name)
) as [number, number, number, number]
const [touchedModel, touchedPrice] = [touchColumns.indexOf('model'), touchColumns.indexOf('price_version')]
const openColumn = workColumns.indexOf('open')

/**
 * Goes through what is left. With a `folder`, what is behind the first damage is written there as segments, whose
 * ordinals are behind all that there are; the last batch says in the audit log what is missing. `now` in Unix
 * milliseconds.
 * @throws Error when the batches contradict each other
 */
export function mend(
  remains: readonly Remains[],
  testimony: Testimony,
  folder: string | undefined,
  now: number,
  reached: (batches: number) => void
): Mended {
  const { taken, foreign } = chained(remains)
  const ordinal = Math.max(0, ...remains.map(({ head }) => head.ordinal))
  const mending = new Mending(testimony, new SegmentWriting(folder, ordinal))
  for (const [i, source] of taken.entries()) {
    mending.take(source, Math.min(...taken.slice(i + 1).map(boundOf)), reached)
  }
  const histories = new Set(taken.flatMap(({ head }) => [head.history, head.previous]))
  const claims = [...testimony.claims].filter(([history]) => taken.length === 0 || histories.has(history))
  mending.end(Math.max(0, ...claims.map(([, batch]) => batch)), now)
  const { kept, keptTo, broken, saved, loss } = mending
  return { kept, keptTo, broken, saved, loss, foreign: Share.of(batchesOf(foreign)) }
}

/** Up to which batch those before a file count. A head that is only known by its frames does not say. */
function boundOf({ head, sound }: Remains): number {
  return sound || head.previous !== '' ? head.after : Infinity
}

function* batchesOf(sources: readonly Remains[]): Generator<Batch> {
  for (const source of sources) for (const { batch } of source.frames(0, Infinity)) yield batch
}

/** Tells files that go on from each other from those of copies that went on by themselves. */
function chained(remains: readonly Remains[]): { taken: Remains[]; foreign: Remains[] } {
  const [taken, foreign]: [Remains[], Remains[]] = [[], []]
  const left = new Set<string>()
  let present = ''
  for (const one of remains) {
    const { history, previous } = one.head
    const goesOn = history === present || previous === present
    if (taken.length > 0 && !goesOn && (left.has(history) || left.has(previous))) {
      foreign.push(one)
      continue
    }
    if (history !== present && present !== '') left.add(present)
    present = history
    taken.push(one)
  }
  return { taken, foreign }
}

class Mending {
  readonly kept: string[] = []
  readonly broken: { file: string; text: string }[] = []
  readonly saved = new Share()
  keptTo = 0
  readonly #fold: Fold
  readonly #writing: SegmentWriting
  readonly #witnesses: Witness[]
  readonly #gaps: Gap[] = []
  #entries: number | undefined = 0
  #balances: readonly Lack[] | undefined = []
  #keeping = true
  /** The last batch by the numbers of the damaged journal. */
  #last = 0
  /** The start that batches behind a gap are written as, and the history that they had. */
  #start: Start = { boot: 0, history: '' }
  #of: string | undefined
  /** The ids of holds that were opened since the last gap, by those they had. */
  readonly #ids = new Map<number, number>()
  #nextId = 1

  constructor({ witnesses }: Testimony, writing: SegmentWriting) {
    this.#witnesses = [...witnesses]
    this.#writing = writing
    this.#fold = writing.fold
  }

  get loss(): Loss {
    return { gaps: this.#gaps, entries: this.#entries, balances: this.#balances }
  }

  /** Takes the batches of a file up to `until`. */
  take(source: Remains, until: number, reached: (batches: number) => void): void {
    const { head, path, runs, sound } = source
    const { place } = this.#fold
    if (until <= this.#last) return
    const most = runs.at(-1)!.last
    const [goesOn, whole] = [head.after === place.batch, sound && (until === Infinity || most >= until)]
    const fits = head.previous === place.history || head.history === place.history
    if (!whole) this.broken.push({ file: path, text: 'has damaged or missing frames' })
    else if (this.#keeping && !(goesOn && fits))
      this.broken.push({ file: path, text: `goes on behind batch ${head.after} instead of ${place.batch}` })
    this.#keeping &&= goesOn && fits && whole
    for (const { batch } of source.frames(this.#last, until)) {
      if (batch.number <= this.#last) continue
      if (this.#keeping) {
        this.#fold.add(batch, head)
        this.#last = batch.number
      } else this.#add(batch, head)
      this.saved.add(batch)
      if (this.saved.batches % 1024 === 0) reached(this.saved.batches)
    }
    if (!this.#keeping) return
    this.kept.push(path)
    this.keptTo = this.#last
    this.#fold.marked()
  }

  /** `claim`: the last batch that is known to have been written. */
  end(claim: number, now: number): void {
    if (claim > this.#last) {
      this.#consult(this.#last)
      this.#gap(claim, undefined)
    }
    this.#consult(this.#last)
    if (this.#gaps.length > 0) this.#append({ written: now, audit: [now, JSON.stringify(entryOf(this.loss))] }, 1)
    this.#writing.end()
  }

  #add(batch: Batch, head: Start): void {
    this.#consult(this.#last)
    if (batch.number > this.#last + 1) this.#gap(batch.number - 1, batch.written)
    this.#consult(batch.number - 1)
    const { boot, history } = this.#fold.place
    if (this.#gaps.length === 0) {
      const known = head.boot > 0 ? head.boot : head.history === history ? boot : boot + 1
      this.#start = { boot: known, history: head.history }
    } else if (this.#of === undefined) this.#of = head.history
    else if (this.#of !== head.history) {
      this.#start = { boot: Math.max(boot + 1, head.boot), history: fresh() }
      this.#of = head.history
    }
    this.#append(this.#gaps.length === 0 ? batch : this.#alone(batch), batch.entries.length + batch.records.length)
    this.#last = batch.number
  }

  #append(fields: Fields, values: number): void {
    this.#writing.add(this.#start, fields, values / 8)
  }

  #gap(last: number, until: number | undefined): void {
    const { boot, seq, written } = this.#fold.place
    this.#keeping = false
    this.#gaps.push({ first: this.#last + 1, last, row: seq, since: written, until })
    this.#last = last
    this.#start = { boot: boot + 1, history: fresh() }
    this.#of = undefined
    this.#ids.clear()
    for (const { row } of this.#fold.holds) this.#nextId = Math.max(this.#nextId, (row[idColumn] as number) + 1)
    this.#entries = this.#balances = undefined
  }

  /** Hears those that know of batches up to `batch`, behind which the state is, but for what is lost. */
  #consult(batch: number): void {
    for (let next = this.#witnesses[0]; next && next.batch <= batch; next = this.#witnesses[0]) {
      this.#witnesses.shift()
      if (this.#gaps.length === 0) continue
      const { seq, posted, contents } = next
      if (next.batch === this.#last) {
        this.#entries = seq - this.#fold.place.seq
        if (posted) this.#balances = this.#lacking(posted)
      }
      if (contents) this.#restore(contents)
    }
  }

  #lacking(posted: ReadonlyMap<string, bigint>): Lack[] {
    const present = new Map([...this.#fold.balances].map((sum) => [`${sum.scope} ${sum.window}`, sum.posted]))
    return [...posted].flatMap(([name, amount]) => {
      const missing = amount - (present.get(name) ?? 0n)
      const at = name.lastIndexOf(' ')
      return missing > 0n ? [{ scope: name.slice(0, at), window: name.slice(at + 1), amount: missing }] : []
    })
  }

  /** Brings back what lost batches have changed besides money. */
  #restore({ prices, documents, works }: NonNullable<Witness['contents']>): void {
    const fold = this.#fold
    const differs = (one: readonly Value[] | undefined, other: readonly Value[]): boolean =>
      one === undefined || other.some((value, i) => value !== one[i])
    const fields = {
      prices: [...prices].filter(([version]) => !fold.prices.has(version)).flat(),
      documents: [
        ...[...documents].filter(([name, row]) => differs(fold.documents.get(name), row)).map(([, row]) => row),
        ...[...fold.documents]
          .filter(([name]) => !documents.has(name))
          .map(([, row]) => [...row.slice(0, documentColumns.length - 1), null])
      ].flat(),
      works: [...works]
        .filter(([name, row]) => differs(fold.works.get(name), row))
        .filter(([name, row]) => row[openColumn] === 1 || fold.works.has(name))
        .flatMap(([, row]) => row)
    }
    const values = fields.prices.length + fields.documents.length + fields.works.length
    if (values > 0) this.#append(fields, values)
  }

  /**
   * What of a batch does not depend on those that are lost. Holds at a lost price are left out, as they could not be
   * ended, and so is progress of holds that were opened before the gap. Their ids may have been given again since.
   */
  #alone(batch: Batch): Fields {
    const { prices, holds } = this.#fold
    const known = (version: Value): boolean =>
      prices.has(version as string) || batch.prices.some((own, i) => i % 2 === 0 && own === version)
    const opened: Value[] = []
    for (const row of rowsOf(batch.opened, holdColumns.length)) {
      if (!known(row[priceColumn]!) || holds.find(row[requestColumn] as string, row[partColumn] as string)) continue
      const id = this.#nextId++
      this.#ids.set(row[idColumn] as number, id)
      opened.push(...row.with(idColumn, id))
    }
    const touched = rowsOf(batch.touched, touchColumns.length).flatMap((row) => {
      const id = this.#ids.get(row.at(-1) as number)
      if (id === undefined) return []
      const lost = row[touchedPrice] !== null && !known(row[touchedPrice]!)
      return (lost ? row.with(touchedPrice, null).with(touchedModel, null) : row).with(-1, id)
    })
    const leased = rowsOf(batch.leased, 2).flatMap(([until, id]) => {
      const own = this.#ids.get(id!)
      return own === undefined ? [] : [until!, own]
    })
    return {
      ...batch,
      opened,
      touched,
      leased,
      closed: batch.closed.flatMap((id) => this.#ids.get(id) ?? []),
      // Balances follow from holds and entries; of rolling budgets, the moves say which there are.
      moves: rowsOf(batch.moves, 4).flatMap(([scope, window]) =>
        daysOf(window as string) === undefined ? [] : [scope!, window!, 0n, 0n]
      ),
      balanced: false
    }
  }
}

function rowsOf<T>(values: readonly T[], width: number): T[][] {
  return Array.from({ length: values.length / width }, (_, i) => values.slice(i * width, (i + 1) * width))
}

/** What the audit log says of it. */
function entryOf({ gaps, entries, balances }: Loss): object {
  return {
    actor: 'ledger repair',
    action: 'ledger.repair',
    object: 'journal',
    outcome: 'done',
    lost: {
      gaps,
      entries: entries ?? null,
      balances: balances?.map(({ scope, window, amount }) => ({ scope, window, amount_nano: String(amount) })) ?? null
    }
  }
}

function fresh(): string {
  return randomBytes(historyBytes).toString('hex')
}
