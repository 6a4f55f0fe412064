// Which test files share a process, and in which order processes are begun.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Times } from './times.ts'

const root = join(import.meta.dirname, '..')

/** The files of one process, in the order in which they run there. */
export interface Unit {
  readonly files: readonly string[]
  /** The milliseconds that they took the last time, as far as is known. */
  readonly ms: number
}

const long = process.env['SLUICE_LONG'] !== undefined
/** The folders whose files share processes: in the others most files run programs of their own, and take longer. */
const shared = [
  'test/config',
  'test/console',
  'test/core',
  'test/e2e',
  'test/engine',
  'test/faults',
  'test/money',
  'test/observability',
  'test/plugins',
  'test/protocols',
  'test/realtime'
]
/** The most files that share a process, so that none is long. */
const most = 8
/** The most seconds that files which take long share a process for. One that takes half of that has one to itself. */
const mostSeconds = 60
/** Milliseconds that a file is supposed to take of which nothing is known: processes of many come before short ones. */
const unknown = 4000

/**
 * What a file says in its beginning when others would disturb it, or it them: it measures the memory of its process, or
 * changes what all of it sees.
 */
const alone = /^\/\/ Runs alone: /m

/**
 * Puts files together, those that take longest first. Neighbours of some folders share a process, those that take long
 * with others of that kind, but for those that take very long, and those that say that they run alone; in long runs all
 * do.
 */
export function unitsOf(files: readonly string[], times: Times): Unit[] {
  const units: Unit[] = []
  const rooms = new Map<string, string[]>()
  const longRooms = new Map<string, string[]>()
  const add = (files: readonly string[]): void => {
    const ms = files.reduce((sum, file) => sum + (times.of(file) ?? unknown), 0)
    units.push({ files, ms })
  }
  for (const file of files.toSorted()) {
    const room = roomOf(file)
    const seconds = times.usual(file)
    const very = seconds !== undefined && seconds >= mostSeconds / 2
    if (long || !room || very || alone.test(beginningOf(file))) add([file])
    else {
      const all = seconds === undefined ? rooms : longRooms
      all.set(room, [...(all.get(room) ?? []), file])
    }
  }
  for (const files of rooms.values()) {
    const size = Math.ceil(files.length / Math.ceil(files.length / most))
    for (let at = 0; at < files.length; at += size) add(files.slice(at, at + size))
  }
  for (const files of longRooms.values()) {
    let [unit, sum]: [string[], number] = [[], 0]
    for (const file of files) {
      const seconds = times.usual(file)!
      if (sum + seconds > mostSeconds) {
        add(unit)
        ;[unit, sum] = [[], 0]
      }
      unit.push(file)
      sum += seconds
    }
    add(unit)
  }
  return units.toSorted((one, other) => other.ms - one.ms || one.files[0]!.localeCompare(other.files[0]!))
}

/** The folder of those above that a file is in; undefined when it is in none. */
function roomOf(file: string): string | undefined {
  return shared.find((folder) => file.startsWith(`${folder}/`))
}

function beginningOf(file: string): string {
  return readFileSync(join(root, file), 'utf8').slice(0, 1000)
}
