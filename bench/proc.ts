// What the kernel says a process has used: CPU time of all its threads and resident memory, from /proc.
import { readFileSync } from 'node:fs'

/** CPU time in microseconds since the process started, all threads, ended ones too. */
export interface Cpu {
  user: number
  sys: number
  /** Of both, what threads other than the first used: workers, garbage collection, file system calls. */
  beside: number
}

/** Linux counts CPU time for user space in ticks of 10 ms, whatever the kernel's own timer does. */
const tick = 10_000

/** Fields 14 and 15 of /proc/PID/stat; precise to one tick of 10 ms, so measure for seconds. */
export function cpuOf(pid: number): Cpu {
  const all = times(`/proc/${pid}/stat`)
  const first = times(`/proc/${pid}/task/${pid}/stat`)
  return { ...all, beside: all.user + all.sys - first.user - first.sys }
}

function times(file: string): { user: number; sys: number } {
  const stat = readFileSync(file, 'latin1')
  // The second field is the command in parentheses and may hold spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { user: Number(fields[11]) * tick, sys: Number(fields[12]) * tick }
}

/** Resident memory in KiB: `VmRSS`, without the kernel's socket buffers. */
export function residentOf(pid: number): number {
  return memory(pid, 'VmRSS')
}

/** The most that {@link residentOf} has been since the process began. */
export function peakOf(pid: number): number {
  return memory(pid, 'VmHWM')
}

function memory(pid: number, field: string): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)![1])
}

/** CPU time between two readings. */
export function cpuBetween(from: Cpu, to: Cpu): Cpu {
  return { user: to.user - from.user, sys: to.sys - from.sys, beside: to.beside - from.beside }
}
