// Looks at what a test leaves behind: memory, open handles, and the gateway's books through its admin API.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Waits for a state that follows an event by a moment. Give it a condition, not an assertion: a failed assertion stays failed.
 * @throws when the condition does not hold within that time
 */
export async function eventually(condition: () => boolean | Promise<boolean>, withinMs = 2000): Promise<void> {
  const deadline = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`still not so after ${withinMs} ms: ${condition}`)
    await sleep(10)
  }
}

/** Resident memory in bytes, of this process or another. */
export function residentBytes(pid?: number): number {
  if (pid === undefined) return process.memoryUsage.rss()
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(kilobytes?.[1]) * 1024
}
