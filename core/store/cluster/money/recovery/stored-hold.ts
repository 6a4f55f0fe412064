// A hold as the database has it: of an earlier start of this node, or of another one.
import { parsePieces } from '../../../../money/usage.ts'
import type { Price } from '../../../../money/price.ts'
import type { Estimate } from '../../../../money/settlement.ts'
import { Hold } from '../../../embedded/balance/hold.ts'
import type { HoldKeeper } from '../../../embedded/balance/hold.ts'
import { Purse } from '../../../embedded/balance/purse.ts'
import type { ReserveRequest } from '../../../ledger.ts'

/** A row of the table hold. */
export interface HoldRow {
  readonly request_id: string
  readonly part: string
  readonly scopes: string
  readonly tags: string | null
  readonly amount: bigint
  readonly model: string
  readonly price_version: string
  readonly cost_price: string | null
  readonly input_units: bigint
  readonly max_out: bigint
  readonly pieces: string | null
  readonly channel: string | null
  readonly delivered: bigint
  readonly endpoint: string | null
  readonly client_protocol: string | null
  readonly streamed: boolean
  readonly time: bigint
  readonly lease_until: bigint | null
}

/** Makes a hold of a row. `costs`: what the channels charge, where its process said so. */
export function resumed(row: HoldRow, costs: ReserveRequest['costs'], keeper: HoldKeeper): Hold {
  const { request_id: requestId, part, scopes, tags, channel } = row
  const time = Number(row.time)
  const own = row.cost_price === null ? undefined : keeper.price(row.cost_price)
  const maxOutput = Number(row.max_out)
  const estimate: Estimate = { input: Number(row.input_units), maxOutput, pieces: parsePieces(row.pieces) }
  const request: ReserveRequest = {
    requestId,
    part,
    scopes: [],
    amount: row.amount,
    model: row.model,
    price: priceOf(row, keeper),
    costs: costs ?? (own && new Map([[channel ?? '', own]])),
    estimate,
    time,
    endpoint: row.endpoint ?? undefined,
    clientProtocol: row.client_protocol ?? undefined,
    streamed: row.streamed
  }
  const stored = {
    rowId: 0,
    channel,
    delivered: Number(row.delivered),
    lease: row.lease_until === null ? undefined : Number(row.lease_until)
  }
  return new Hold(request, new Purse({ scopes, tags }, { from: time, until: time }, [], [], []), stored, keeper)
}

function priceOf({ price_version: version }: HoldRow, keeper: HoldKeeper): Price {
  const price = keeper.price(version)
  // It is written in the batch of the hold.
  if (!price) throw new Error(`the price version ${version} of a hold is not in the book`)
  return price
}
