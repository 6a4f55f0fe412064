// Reads usage in seconds, as audio and video are charged when no tokens are counted.
import { noUsage } from '../../money/usage.ts'
import { asObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'

/** Reads `{seconds}`, rounded up: prices are for whole seconds, and a short call is not free. */
export function readSeconds(value: unknown): ReportedUsage {
  const seconds = asObject(value)?.['seconds']
  if (seconds === undefined || seconds === null) return undefined
  if (typeof seconds !== 'number' || seconds < 0) return 'insane'
  const second = Math.ceil(seconds)
  return Number.isSafeInteger(second) ? { ...noUsage, second } : 'insane'
}
