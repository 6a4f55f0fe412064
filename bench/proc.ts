// Reads from /proc what a process has used: CPU time of all its threads, and resident memory.
import { readdirSync, readFileSync } from 'node:fs'

/** CPU time in microseconds of all threads of a process between two readings. */
export interface Cpu {
  user: number
  sys: number
  /** The part of both that threads other than the main thread used: workers, garbage collection, file system calls. */
  beside: number
}

/** What a process has used since it started. */
export interface Reading {
  pid: number
  /** Microseconds of each thread. */
  threads: ReadonlyMap<number, number>
  /** Ticks. */
  user: number
  sys: number
}

/** Linux reports the parts of CPU time in ticks of 10 ms, whatever timer the kernel uses. */
const tick = 10_000

/**
 * The time of each thread is exact to less than a microsecond, in the first field of its `schedstat`; how it is divided
 * into user and system time is known to 10 ms, from fields 14 and 15 of /proc/PID/stat.
 */
export function cpuOf(pid: number): Reading {
  const threads = new Map<number, number>()
  for (const id of readdirSync(`/proc/${pid}/task`))
    try {
      const [nanoseconds] = readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'latin1').split(' ')
      threads.set(Number(id), Number(nanoseconds) / 1000)
    } catch {
      // It has ended meanwhile.
    }
  const fields = fieldsOf(`/proc/${pid}/stat`)
  return { pid, threads, user: Number(fields[11]), sys: Number(fields[12]) }
}

/** What was used between two readings. A thread that has ended in between does not count. */
export function cpuBetween(from: Reading, to: Reading): Cpu {
  let [all, main] = [0, 0]
  for (const [id, used] of to.threads) {
    const more = used - (from.threads.get(id) ?? 0)
    all += more
    if (id === to.pid) main = more
  }
  const [user, sys] = [to.user - from.user, to.sys - from.sys]
  const part = user + sys === 0 ? 1 : user / (user + sys)
  return { user: all * part, sys: all * (1 - part), beside: all - main }
}

/** CPU time in microseconds of a process and of all that it has started, also of those that have ended. */
export function familyCpuOf(pid: number): number {
  const own = fieldsOf(`/proc/${pid}/stat`)
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim()
  const living = (children === '' ? [] : children.split(' ')).map((child) => {
    try {
      return fieldsOf(`/proc/${child}/stat`)
    } catch {
      // It has ended meanwhile.
      return []
    }
  })
  // Fields 16 and 17 are those of the children that have ended.
  const ticks = [...own.slice(11, 15), ...living.flatMap((fields) => fields.slice(11, 13))]
  return ticks.reduce((sum, field) => sum + Number(field), 0) * tick
}

/** From the third on: the second is the command in parentheses and may hold spaces. */
function fieldsOf(file: string): string[] {
  const stat = readFileSync(file, 'latin1')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

/** Resident memory in KiB: `VmRSS`, without the kernel's socket buffers. */
export function residentOf(pid: number): number {
  return memory(pid, 'VmRSS')
}

/** The highest value of {@link residentOf} since the process began. */
export function peakOf(pid: number): number {
  return memory(pid, 'VmHWM')
}

function memory(pid: number, field: string): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)![1])
}

/** Bytes that a process has handed to the kernel, for sockets and files. */
export function writtenBy(pid: number): number {
  return Number(/^wchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'latin1'))![1])
}
