// Days of scopes with rolling budgets in the shared memory: what all seats together have in each hour of one.
import { perDay } from '../../embedded/balance/hours.ts'
import { day, windowOf } from '../../window.ts'
import type { Arena } from './arena.ts'
import { dataOf } from './arena.ts'
import { sumUnits } from './cell.ts'
import type { Seat } from './seat.ts'

/** Behind the hours are two words: how many rows of cells have their sums there, and the row of its scope's hours. */
const state = sumUnits * perDay

/**
 * A row of the table of hours has first what all hours of a scope together were charged and have used since the memory
 * was made: two units, which the lock of the scope's total guards, as it counts whatever an hour counts.
 */
export const allUnits = 2
/**
 * Behind them are words: the latest hour that anybody asked for; how many days back there is everything; how often
 * something happened that the sums made before do not know, which is a change of an hour that is older than a day, a
 * day that was made when there were later ones, and days that were loaded; and how many days back nothing is
 * forgotten, as they are about to be loaded.
 */
export const [latest, reach, changes, wanted] = [0, 1, 2, 3]

/** A word of a row of hours. */
export function hoursWord({ hours }: Arena, row: number, word: number): number {
  return 2 * (dataOf(hours, row) + allUnits) + word
}

/** The name of a day of a scope. `date`: counted from 1970. */
export function dayName(scope: string, date: number): string {
  return `${scope}\n${windowOf('day', date * day)}`
}

/** Notes, within a change, whose hours a day that was just made has. */
export function beginDay(seat: Seat, row: number, hoursRow: number): void {
  const at = dataOf(seat.arena.days, row) + state
  seat.save(at)
  seat.arena.words[2 * at + 1] = hoursRow
}

/** Counts, within a change, the rows that have their sums in a day. */
export function need(seat: Seat, row: number, more: 1 | -1): void {
  const at = dataOf(seat.arena.days, row) + state
  seat.save(at)
  seat.arena.words[2 * at]! += more
}

/** Whether no row has its sums in a day, nothing is held in it, and no budget needs it for hours since `kept`. */
export function isIdleDay(arena: Arena, row: number, over: number, kept: number): boolean {
  const { words, sums, days } = arena
  const data = dataOf(days, row)
  const hoursRow = words[2 * (data + state) + 1]!
  if (words[2 * (data + state)] !== 0) return false
  const back = Math.max(words[hoursWord(arena, hoursRow, reach)]!, words[hoursWord(arena, hoursRow, wanted)]!)
  if (over > kept - back * perDay) return false
  for (let at = data; at < data + state; at += sumUnits) if (sums[at] !== sums[at + 1]) return false
  return true
}
