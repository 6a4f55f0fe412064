// Calls: how often a request and an event go to the kernel, counted by `strace` on all threads, and what they write.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run as put } from './contest.ts'
import type { Rig, Workload } from './contest.ts'
import type { Target } from './contestant.ts'
import { smallJson } from './j1.ts'
import { start } from './line-up.ts'
import { writtenBy } from './proc.ts'
import type { Report } from './report.ts'
import { steadyStreams } from './s1.ts'
import { startSluice } from './sluice.ts'

/** The program that it needs. */
export const needs = 'strace'
export const title = 'Calls: system calls, wake-ups and bytes written by J1 and S1, all threads'

/** The rows of the table, with the system calls that each counts; the first that fits. */
const kinds: readonly (readonly [string, RegExp])[] = [
  ['waits for sockets and other loops (epoll)', /^epoll_p?wait/],
  ['wake-ups of threads and waits for them (futex)', /^futex/],
  ['reads', /^(p?readv?|pread64|recvfrom|recvmsg)$/],
  ['writes', /^(writev?|pwrite64|pwritev2?|sendto|sendmsg)$/],
  ['waits for the disk (fsync, fdatasync)', /^f(data)?sync$/],
  ['memory (mmap, munmap, madvise, mprotect)', /^(mmap|munmap|madvise|mprotect|brk)$/],
  ['others', /./]
]
const bytes = 'bytes written, to sockets and files'

/** Runs it. */
export async function run(rig: Rig): Promise<Report> {
  const loads: Readonly<Record<string, Workload>> = { 'J1 per request': smallJson, 'S1 per event': steadyStreams }
  const columns: Map<string, number>[] = []
  // All that is asked is counted, so that nothing may come before the window.
  const whole = { ...rig, warm: 0.01 }
  for (const workload of Object.values(loads)) {
    await using gateways = await start([() => startSluice(rig)])
    const gateway = gateways.list[0]!
    await put(rig, workload, gateway)
    const before = writtenBy(gateway.pid)
    const { count } = await put(whole, workload, gateway)
    columns.push(
      new Map([[bytes, (writtenBy(gateway.pid) - before) / count], ...(await callsOf(whole, workload, gateway))])
    )
  }
  return {
    id: 'calls',
    title,
    columns: ['', ...Object.keys(loads)],
    rows: [bytes, ...kinds.map(([name]) => name)].map((name) => [
      name,
      ...columns.map((column) => (column.get(name) ?? 0).toFixed(name === bytes ? 0 : 2))
    ]),
    notes: [
      'System calls are those of all threads from the first request to the last, divided by the requests or events. strace ' +
        'makes each several times as long, so that more comes together in one batch than without it: compare these ' +
        'figures only with others of the kind. Bytes are `wchar` of /proc/PID/io in a run without strace.'
    ],
    problems: []
  }
}

/** System calls of each kind per unit. */
async function callsOf(rig: Rig, workload: Workload, to: Target): Promise<Map<string, number>> {
  const table = join(rig.directory, `strace-${workload.unit}`)
  const args = ['-f', '-c', '-U', 'calls,name', '-o', table, '-p', String(to.pid)]
  const counter = spawn('strace', args, { stdio: 'ignore' })
  const closed = new Promise((resolve, reject) => counter.once('error', reject).once('close', resolve))
  await Promise.race([sleep(1000), closed])
  const { count } = await put(rig, workload, to)
  counter.kill('SIGINT')
  await closed
  const calls = new Map<string, number>()
  for (const [, times, name] of readFileSync(table, 'latin1').matchAll(/^ *(\d+) +(\w+)$/gm)) {
    const kind = kinds.find(([, pattern]) => pattern.test(name!))![0]
    if (name !== 'total') calls.set(kind, (calls.get(kind) ?? 0) + Number(times) / count)
  }
  return calls
}
