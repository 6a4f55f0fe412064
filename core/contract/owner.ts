// Whose is what an exchange makes, and what it may find.
import type { Exchange } from './exchange.ts'
import { caller } from './slots.ts'
import type { Owner } from '../store/owner.ts'

/** Its caller's project. */
export function ownerOf(exchange: Exchange): Owner {
  const { tenant = '', project = '' } = exchange.find(caller) ?? {}
  return { tenant, project }
}
