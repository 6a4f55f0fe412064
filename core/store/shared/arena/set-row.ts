// A set of limits in the shared memory: three buckets, and how many slots and tokens are taken by whom.
import type { Rates } from '../../../catalogue/caller.ts'
import { Bucket, minute, second } from '../../memory/bucket.ts'
import type { Entry } from '../../memory/entry.ts'
import type { Arena } from './arena.ts'
import { dataOf, setUnits } from './arena.ts'
import type { Seat } from './seat.ts'

/** Where the buckets begin within a row, in units: content, limit and time of each. */
const [rps, rpm, tpm] = [0, 3, 6]
const bucketUnits = 3
/**
 * Where the counts of all seats together are; those of each seat are behind them. Slots, and then uncorrected
 * tokens.
 */
const counts = 9

/** The names of the rates in the order of their buckets. */
export const rateNames = ['rps', 'rpm', 'tpm'] as const
export const rateWindows = [second, minute, minute] as const

/** Reads the state of a set into an entry: the buckets of these rates, and the counts. Call `turn` behind it. */
export function readSet(arena: Arena, row: number, entry: Entry, rates: Rates): void {
  const { floats, words, sets } = arena
  const at = dataOf(sets, row)
  if (rates.rps !== undefined) (entry.rps ??= new Bucket(second, 0, 0)).read(floats, at + rps)
  if (rates.rpm !== undefined) (entry.rpm ??= new Bucket(minute, 0, 0)).read(floats, at + rpm)
  if (rates.tpm !== undefined) (entry.tpm ??= new Bucket(minute, 0, 0)).read(floats, at + tpm)
  entry.leases = words[2 * (at + counts)]!
  entry.uncorrected = words[2 * (at + counts) + 1]!
}

/** Writes the state of a set back, within a change: what {@link readSet} read for the same rates. */
export function writeSet(seat: Seat, row: number, entry: Entry, rates: Rates): void {
  const { floats, words, sets } = seat.arena
  const at = dataOf(sets, row)
  if (rates.rps !== undefined) writeBucket(seat, floats, at + rps, entry.rps!)
  if (rates.rpm !== undefined) writeBucket(seat, floats, at + rpm, entry.rpm!)
  if (rates.tpm !== undefined) writeBucket(seat, floats, at + tpm, entry.tpm!)
  const all = 2 * (at + counts)
  const [leases, uncorrected] = [entry.leases - words[all]!, entry.uncorrected - words[all + 1]!]
  if (leases === 0 && uncorrected === 0) return
  const own = 2 * (at + setUnits + seat.number)
  seat.save(at + counts)
  seat.save(at + setUnits + seat.number)
  words[all]! += leases
  words[all + 1]! += uncorrected
  words[own]! += leases
  words[own + 1]! += uncorrected
}

function writeBucket(seat: Seat, floats: Float64Array, at: number, bucket: Bucket): void {
  seat.save(at, bucketUnits)
  bucket.write(floats, at)
}

/** Whether nothing is taken of a set, and nothing remembered. The caller has the lock of its home. */
export function isIdle({ floats, words, sets }: Arena, row: number, now: number): boolean {
  const at = dataOf(sets, row)
  if (words[2 * (at + counts)] !== 0 || words[2 * (at + counts) + 1] !== 0) return false
  for (let bucket = at; bucket < at + counts; bucket += bucketUnits)
    if (floats[bucket]! > (now - floats[bucket + 2]!) * floats[bucket + 1]!) return false
  return true
}

/** Gives back, within a change, every slot that a seat has of a set; its tokens stay as they were expected. */
export function clearSeat(seat: Seat, row: number, gone: number): void {
  const { words, sets } = seat.arena
  const at = dataOf(sets, row)
  const [all, own] = [at + counts, at + setUnits + gone]
  if (words[2 * own] === 0 && words[2 * own + 1] === 0) return
  seat.save(all)
  seat.save(own)
  words[2 * all]! -= words[2 * own]!
  words[2 * all + 1]! -= words[2 * own + 1]!
  words[2 * own] = 0
  words[2 * own + 1] = 0
}

/** Whether a seat has anything of a set. It may be asked without the lock, when nobody is on the seat. */
export function hasOf({ words, sets }: Arena, row: number, seat: number): boolean {
  const own = 2 * (dataOf(sets, row) + setUnits + seat)
  return words[own] !== 0 || words[own + 1] !== 0
}
