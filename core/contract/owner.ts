// Who owns the things that an exchange makes, and which things it may find.
import type { Exchange } from './exchange.ts'
import { caller } from './slots.ts'
import type { Owner } from '../store/owner.ts'

/** The tenant and project of the caller, both empty without a caller. */
export function ownerOf(exchange: Exchange): Owner {
  const { tenant = '', project = '' } = exchange.find(caller) ?? {}
  return { tenant, project }
}
