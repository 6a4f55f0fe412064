// Counts of units as columns take them.
import type { Pieces } from '../../../money/usage.ts'

/** Makes a count one that a column takes: whole, and from 0 to 2^53 - 1. Plugins may have computed it wrongly. */
export function whole(units: number): number {
  return Math.min(Math.max(Math.ceil(units) || 0, 0), Number.MAX_SAFE_INTEGER)
}

/** The pieces of an estimate as JSON. */
export function renderPieces(pieces: Pieces | undefined): string | null {
  return pieces === undefined
    ? null
    : JSON.stringify(pieces, (_, value) => (typeof value === 'number' ? whole(value) : value))
}
