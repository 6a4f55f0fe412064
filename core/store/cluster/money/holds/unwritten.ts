// The end of a hold that the database never had: nothing of it was shown, and nothing that costs may be.
import type { Logger } from '../../../../telling/log.ts'
import type { Hold } from '../../../embedded/balance/hold.ts'
import { unavailable } from '../../../embedded/writer/unavailable.ts'

/** Who is told of one that would have been charged. */
export interface Told {
  readonly log: Logger
  /** Is told of a hold that ended with a charge, and is not in the book: its request was not charged for it. */
  uncharged(hold: Hold): void
}

/** Resolves for one that would cost nothing, and refuses with `billing_unavailable` what was not charged. */
export async function endUnwritten(hold: Hold, charged: bigint, { log, uncharged }: Told): Promise<void> {
  if (charged === 0n) return
  log.error('a request is not charged, as the database never had its hold', {
    exchange: hold.requestId,
    part: hold.part,
    would_be_nano: String(charged)
  })
  uncharged(hold)
  throw unavailable('its hold was not written in time')
}
