// Words for the progress of a command: how much is done, how fast, and how long the rest takes.
import type { Amount } from '../../store/embedded/care/tell.ts'

/** All units of amounts. */
export const units: readonly Amount['unit'][] = ['rows', 'bytes', 'files', 'models']

/** What a command was doing at a time. */
export interface Moment {
  words: string
  unit: Amount['unit']
  /** How much was done, and of how much, where that is known. */
  done: number | undefined
  of: number | undefined
  /** Milliseconds of any clock that runs evenly. */
  time: number
}

/** A rate of less time than this many milliseconds says nothing. */
const least = 500

/**
 * The line for what a command does now. `first` is the first moment of the same step; `seconds` are those since the
 * command began.
 */
export function progressLine(first: Moment, now: Moment, seconds: number): string {
  const { words, unit, done, of } = now
  if (done === undefined || done === 0) return `${words}, ${seconds} s`
  const passed = now.time - first.time
  const rate = passed < least ? 0 : ((done - (first.done ?? 0)) / passed) * 1000
  const left = of === undefined || rate <= 0 || of < done ? undefined : Math.ceil((of - done) / rate)
  return [
    `${words}: ${countOf(done, of, unit)}`,
    ...(rate > 0 ? [`${sizeOf(rate, unit)}/s`] : []),
    `${seconds} s`,
    ...(left === undefined ? [] : [`${timeOf(left)} left`])
  ].join(', ')
}

function countOf(done: number, of: number | undefined, unit: Amount['unit']): string {
  return of === undefined ? sizeOf(done, unit) : `${sizeOf(done, unit)} of ${sizeOf(of, unit)}`
}

function sizeOf(size: number, unit: Amount['unit']): string {
  const number = (value: number): string => Math.round(value).toLocaleString('en-US')
  return unit === 'bytes' ? `${number(size / 1e6)} MB` : `${number(size)} ${unit}`
}

function timeOf(seconds: number): string {
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
