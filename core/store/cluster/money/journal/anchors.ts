// Anchors: where all chains of the journal ended at a moment, each hashed with the anchor before. So no end of a chain
// can be taken away without all anchors behind it.
import { createHash } from 'node:crypto'
import type { Report } from '../../../embedded/care/verify/invariants.ts'
import type { Lane, Transaction } from '../../database/lane.ts'

/** How often one is written, in milliseconds. */
const every = 60_000

/** Has anchors written as long as a node lives. Of all nodes one writes each. */
export class Anchors {
  readonly #lane: Lane
  #next = 0

  constructor(lane: Lane) {
    this.#lane = lane
  }

  /** Writes one if it is time, and some chain has grown. `force`: since the last one, whenever that was. */
  async write(force = false): Promise<void> {
    const now = performance.now()
    if (!force && now < this.#next) return
    await this.#lane.query(`select sluice.money_anchor_1($1 * interval '1 millisecond')`, [force ? 0 : every])
    this.#next = now + every
  }
}

interface HeadRow {
  readonly number: bigint
  readonly prev_hash: Buffer
  readonly hash: Buffer
  readonly node: string | null
  readonly epoch: number
  readonly seq: bigint
  readonly head: Buffer
}

/** Checks of I10 that no anchor is missing, or was changed, and that each chain has what they say. */
export async function checkAnchors(
  rowsOf: (query: string) => AsyncIterable<unknown>,
  transaction: Transaction,
  report: Report
): Promise<void> {
  let number = 0n
  let last = ''
  let anchor:
    | { readonly name: string; readonly hash: string; readonly digest: ReturnType<typeof createHash> }
    | undefined
  const end = (): void => {
    if (anchor && anchor.digest.digest('hex') !== anchor.hash)
      report('I10', anchor.name, 'is not what was hashed when it was written')
  }
  for await (const one of rowsOf(
    `select a.number, a.prev_hash, a.hash, h.node, h.epoch, h.seq, h.hash as head
      from sluice.anchor a left join sluice.anchor_head h on h.anchor = a.number
      order by a.number, h.node collate "C", h.epoch`
  )) {
    const row = one as HeadRow
    if (row.number !== number) {
      end()
      const name = `anchor ${row.number}`
      if (row.number !== number + 1n) report('I10', name, `follows anchor ${number}: anchors between are missing`)
      const previous = row.prev_hash.toString('hex')
      if (previous !== last) report('I10', name, 'does not continue the hash of the anchor before')
      number = row.number
      last = row.hash.toString('hex')
      anchor = { name, hash: last, digest: createHash('sha256').update(`${previous}\n`) }
    }
    const { node, epoch, seq, head } = row
    if (node !== null)
      anchor!.digest.update(`${Buffer.byteLength(node)}:${node} ${epoch} ${seq} ${head.toString('hex')}\n`)
  }
  end()
  const { rows } = await transaction.query<{ node: string; epoch: number; seq: bigint; anchor: bigint; back: boolean }>(
    `select h.node, h.epoch, h.seq, h.anchor, h.back from (
        select *, seq <= lag(seq) over (partition by node, epoch order by anchor) as back from sluice.anchor_head) h
      left join sluice.journal j on j.node = h.node and j.epoch = h.epoch and j.seq = h.seq and j.hash = h.hash
      where j.seq is null or h.back order by h.anchor, h.node, h.epoch limit 1000`
  )
  for (const { node, epoch, seq, anchor: of, back } of rows)
    report(
      'I10',
      `journal ${node} ${epoch} ${seq}`,
      back ? `is behind what anchor ${of - 1n} or one before has` : `is not what anchor ${of} has, or is missing`
    )
}
