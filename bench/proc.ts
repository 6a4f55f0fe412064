// Reads from /proc what a process has used: CPU time of all its threads, and resident memory.
import { readFileSync } from 'node:fs'

/** CPU time in microseconds since the process started, of all its threads, including those that have ended. */
export interface Cpu {
  user: number
  sys: number
  /** The part of both that threads other than the main thread used: workers, garbage collection, file system calls. */
  beside: number
}

/** Linux reports CPU time in ticks of 10 ms, whatever timer the kernel uses. */
const tick = 10_000

/** Fields 14 and 15 of /proc/PID/stat. They are exact to 10 ms, so measure for seconds. */
export function cpuOf(pid: number): Cpu {
  const all = times(`/proc/${pid}/stat`)
  const first = times(`/proc/${pid}/task/${pid}/stat`)
  return { ...all, beside: all.user + all.sys - first.user - first.sys }
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

function times(file: string): { user: number; sys: number } {
  const fields = fieldsOf(file)
  return { user: Number(fields[11]) * tick, sys: Number(fields[12]) * tick }
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

/** CPU time between two readings. */
export function cpuBetween(from: Cpu, to: Cpu): Cpu {
  return { user: to.user - from.user, sys: to.sys - from.sys, beside: to.beside - from.beside }
}
