// The holds that the database says are this node's: of an earlier start, of nodes that are gone, and of adopted work.
import type { Hold } from '../../../embedded/balance/hold.ts'
import type { ReserveRequest } from '../../../ledger.ts'
import { day } from '../../../window.ts'
import type { Logger } from '../../../../telling/log.ts'
import type { Database } from '../../database/database.ts'
import type { Gone } from '../../database/soundness.ts'
import { nameOf } from '../holds/live.ts'
import type { Book } from '../holds/book.ts'
import { Queue } from '../sending/operations.ts'
import type { Admission, Charge, End } from '../sending/operations.ts'
import type { Prices } from '../holds/prices.ts'
import type { LateEnds } from './late-ends.ts'
import { resumed } from './stored-hold.ts'
import type { HoldRow } from './stored-hold.ts'

/** How many holds of a node that is gone are taken over at once. */
const mostTaken = 500

/** What it needs of its node. */
export interface OwnHoldsParts {
  readonly database: Pick<Database, 'batches' | 'changes' | 'reads'>
  readonly node: string
  /** How long a detached hold may be without work, in milliseconds. */
  readonly lease: number
  readonly ledger: Book
  readonly prices: Prices
  /** Takes ends whose holds are not this node's any more. */
  readonly late: LateEnds
  /** Is told of requests of which something that was taken up here has ended, when that is in the journal. */
  corrected(requestId: string): void
  readonly log: Logger
}

/** A name of a hold, as the database has it. */
type Named = Pick<HoldRow, 'request_id' | 'part'>

/** The holds of a node in the database. */
export class OwnHolds {
  readonly #parts: OwnHoldsParts
  /** Those that memory lacked at the last look. */
  #strange: ReadonlySet<string> = new Set()
  /** Detached ones without work, and since when every look has seen them so, by performance.now(). */
  #idle: ReadonlyMap<string, number> = new Map()
  /** Those that were taken up and have not ended: others may have written the records of their requests. */
  readonly #taken = new Set<string>()
  /** Those that nothing can be done with, of which it was told. */
  readonly #hopeless = new Set<string>()

  constructor(parts: OwnHoldsParts) {
    this.#parts = parts
  }

  /** All of them. */
  async rows(): Promise<HoldRow[]> {
    const { database, node } = this.#parts
    return (await database.batches.query<HoldRow>('select * from sluice.hold where node = $1', [node])).rows
  }

  /**
   * Goes on with holds that this node has, and does not know or has lost. `costs`: what the channels charge, by name,
   * where it is known.
   */
  async take(
    rows: readonly HoldRow[],
    costs: ReadonlyMap<string, ReserveRequest['costs']> = new Map()
  ): Promise<Hold[]> {
    const { ledger, prices, log } = this.#parts
    if (rows.some((row) => !prices.find(row.price_version))) await prices.refresh()
    const known = ledger.known()
    return rows.flatMap((row) => {
      const name = nameOf(row.request_id, row.part)
      if (known(row)) return []
      try {
        const hold = resumed(row, costs.get(name), ledger)
        ledger.replace(row.request_id, row.part)
        ledger.follow(hold)
        this.#taken.add(name)
        return hold
      } catch (error) {
        // The others are gone on with.
        if (!this.#hopeless.has(name))
          log.error('a hold in the book cannot be ended', { exchange: row.request_id, error: String(error) })
        this.#hopeless.add(name)
        return []
      }
    })
  }

  /** These are in the journal. */
  ended(ends: readonly Charge[]): void {
    if (this.#taken.size === 0) return
    for (const { requestId, part } of ends)
      if (this.#taken.delete(nameOf(requestId, part))) this.#parts.corrected(requestId)
  }

  /** Leaves one alone whose end the database refuses: it stays open until the next start of this node. */
  leave({ requestId, part }: Pick<End, 'requestId' | 'part'>): void {
    this.#hopeless.add(nameOf(requestId, part))
  }

  /** As {@link take}, of holds that other nodes had until now: whatever this node knows of them is older. */
  async #takeAnew(rows: readonly HoldRow[]): Promise<Hold[]> {
    for (const { request_id: id, part } of rows) this.#parts.ledger.replace(id, part)
    return this.take(rows)
  }

  /**
   * Takes over a detached hold that another node may have. Returns whether this node has it then.
   * @throws DatabaseFault also when this node was fenced; whether it is this node's then is found at a later look
   */
  async adopt(epoch: number, requestId: string, part: string): Promise<boolean> {
    const { database, node, ledger } = this.#parts
    // Only the database knows whether another one had it since this node heard of it.
    const { rows } = await database.changes.query<HoldRow & { node: string }>(
      'select * from sluice.money_adopt_1($1, $2, $3, $4)',
      [node, epoch, requestId, part]
    )
    await (rows.some(({ node: before }) => before !== node) ? this.#takeAnew(rows) : this.take(rows))
    return ledger.detached(requestId, part) !== undefined
  }

  /** Has the slices of nodes that are gone be nobody's, which fences them. */
  async takeSlices(epoch: number, { by, beyond }: Gone): Promise<void> {
    const { database, node } = this.#parts
    for (;;) {
      const { rows } = await database.changes.query<{ taken: boolean }>(
        'select sluice.slices_take_over_1($1, $2, $3, $4) as taken',
        [node, epoch, by, beyond]
      )
      if (!rows[0]!.taken) return
    }
  }

  /** Takes over some of what a node has left that is gone. */
  async takeOver(epoch: number, { by, beyond }: Gone): Promise<Hold[]> {
    const { database, node } = this.#parts
    const { rows } = await database.changes.query<HoldRow>(
      'select * from sluice.money_take_over_1($1, $2, $3, $4, $5)',
      [node, epoch, mostTaken, by, beyond]
    )
    return this.#takeAnew(rows)
  }

  /**
   * Looks for holds that this node has and nobody goes on with. Strays are those that memory lacks now and lacked at
   * the look before, as the answer that gave them to this node was lost: they are gone on with. Idle are detached ones
   * that have had no open work for a lease, as that was never written. One look may see a hold that comes or goes.
   */
  async look(): Promise<{ readonly strays: readonly Hold[]; readonly idle: readonly Hold[] }> {
    const { database, node, ledger, lease } = this.#parts
    const { rows } = await database.reads.query<Named & { idle: boolean }>(
      `select request_id, part, lease_until is not null and sluice.hold_is_left_1(lease_until, request_id) as idle
        from sluice.hold where node = $1`,
      [node]
    )
    const known = ledger.known()
    const lacking = rows.filter((row) => !known(row) && !this.#hopeless.has(nameOf(row.request_id, row.part)))
    const strays = lacking.filter(({ request_id: id, part }) => this.#strange.has(nameOf(id, part)))
    this.#strange = new Set(lacking.map(({ request_id: id, part }) => nameOf(id, part)))
    const now = performance.now()
    const idle = rows
      .filter((row) => row.idle)
      .map(({ request_id: id, part }) => ({ id, part, name: nameOf(id, part) }))
    this.#idle = new Map(idle.map(({ name }) => [name, this.#idle.get(name) ?? now]))
    return {
      strays:
        strays.length === 0 ? [] : await this.take((await this.#rowsOf(strays)).filter(({ node: of }) => of === node)),
      idle: idle.flatMap(({ id, part, name }) =>
        now - this.#idle.get(name)! < lease ? [] : (ledger.find(id, part) ?? [])
      )
    }
  }

  /**
   * Which holds the database has had whose batch was not answered, by their names: true for one that was written with
   * its end, false for one whose end others have written, or will.
   */
  async written(admissions: readonly Admission[]): Promise<ReadonlyMap<string, boolean>> {
    if (admissions.length === 0) return new Map()
    const holds = admissions.map(({ hold }) => hold)
    const { rows } = await this.#parts.database.batches.query<Named & { ended: boolean }>(
      `select n.request_id, n.part, j.node is not distinct from $4 as ended
        from unnest($1::int[], $2::text[], $3::text[]) as n(day, request_id, part)
        left join sluice.journal j on j.day = date '1970-01-01' + n.day and j.request_id = n.request_id and j.part = n.part
          and j.class = 'terminal'
        left join sluice.hold h on h.request_id = n.request_id and h.part = n.part
        where j.node is not null or h.node is not null`,
      [
        holds.map(({ request }) => Math.floor(request.time / day)),
        holds.map(({ requestId }) => requestId),
        holds.map(({ part }) => part),
        this.#parts.node
      ]
    )
    return new Map(rows.map(({ request_id: id, part, ended }) => [nameOf(id, part), ended]))
  }

  /**
   * What of the work may be asked for again in another epoch, where the holds with these names are open, and `written`
   * says which others the database has had. `waiting` was not sent yet. `progress`: whether that of all holds is to be
   * written again.
   */
  stillOpen(
    work: Queue,
    waiting: Queue,
    {
      names,
      written,
      progress
    }: { names: ReadonlySet<string>; written: ReadonlyMap<string, boolean>; progress: boolean }
  ): Queue {
    const again = new Queue()
    again.prices.push(...work.prices)
    again.restored.push(...work.restored)
    const error = new Error('other nodes took this one for gone')
    for (const admission of work.admissions) {
      const name = nameOf(admission.hold.requestId, admission.hold.part)
      if (admission.end && written.get(name)) {
        admission.admitted(true)
        admission.end.done()
        continue
      }
      // What others have ended by estimate ends here, too, and corrects that. Nobody has begun what was not decided.
      const had = names.has(name) || (admission.sure && written.has(name))
      if (!had || !admission.sure) admission.failed(error, !had)
      if (had) admission.admitted(false)
    }
    // What was admitted from slices that are gone was shown to nobody.
    for (const admission of waiting.admissions.splice(0)) {
      admission.taken = []
      admission.failed(error, true)
    }
    for (const admission of waiting.decisions) admission.taken = []
    // Another node has ended those of the others by what it knew: nothing more of them may be shown.
    for (const { touches } of [work, waiting])
      for (const [hold, touch] of touches)
        if (!names.has(nameOf(hold.requestId, hold.part))) {
          touches.delete(hold)
          touch.failed(error)
        }
    for (const [hold, touch] of work.touches) again.touches.set(hold, touch)
    if (progress)
      for (const hold of this.#parts.ledger.open)
        if (names.has(nameOf(hold.requestId, hold.part))) again.touch(hold, hold.lease, undefined)
    for (const end of work.ends) {
      if (names.has(nameOf(end.requestId, end.part))) again.ends.push(end)
      else this.tooLate(end)
    }
    return again
  }

  /**
   * Leaves out what is of holds that this node does not have. Their ends are too late, but for corrections. Of progress
   * nothing more may be shown: whoever has the hold, or has ended it, does not know of it.
   */
  async leaveOut({ ends, touches, restored }: Queue): Promise<void> {
    const { node, ledger } = this.#parts
    const asked = [...ends, ...touches.keys()].map(({ requestId, part }) => ({ request_id: requestId, part }))
    const rows = (await this.#rowsOf(asked)).filter((row) => row.node === node)
    const names = new Set([
      ...rows.map(({ request_id: id, part }) => nameOf(id, part)),
      ...restored.flatMap(({ requestId, part, end }) => (end ? [] : nameOf(requestId, part)))
    ])
    for (const end of ends.splice(0))
      if (end.corrects || names.has(nameOf(end.requestId, end.part))) ends.push(end)
      else this.tooLate(end)
    for (const [hold, touch] of touches) {
      const { requestId, part } = hold
      const own = ledger.find(requestId, part) === hold
      if (own && names.has(nameOf(requestId, part))) continue
      touches.delete(hold)
      if (own) ledger.replace(requestId, part)
      touch.failed(new Error('another node goes on with its hold, or has ended it'))
    }
  }

  /** Somebody else has ended the hold, or will. Whether a correction was written that failed, the journal says. */
  tooLate(end: End): void {
    const { late } = this.#parts
    const charge = end.corrects ?? end
    this.#taken.delete(nameOf(end.requestId, end.part))
    if (end.logged) {
      late.take(charge)
      end.done()
    } else late.add(charge).then(end.done, end.failed)
  }

  async #rowsOf(names: readonly Named[]): Promise<(HoldRow & { node: string })[]> {
    const { rows } = await this.#parts.database.batches.query<HoldRow & { node: string }>(
      'select h.* from unnest($1::text[], $2::text[]) as n(request_id, part) join sluice.hold h using (request_id, part)',
      [names.map(({ request_id: id }) => id), names.map(({ part }) => part)]
    )
    return rows
  }
}
