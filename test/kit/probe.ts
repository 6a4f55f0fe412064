// Looks at what a test leaves behind: memory, open handles, and the gateway's books through its admin API.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { ask } from './client.ts'
import type { TestGateway } from './gateway.ts'

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

/** The figures of the metrics endpoint, by name with labels: `sluice_exchanges_running`, `sluice_attempts_total{channel="a",code="ok"}`. */
export async function figures(t: Test, { adminUrl }: Pick<TestGateway, 'adminUrl'>): Promise<Map<string, number>> {
  const { text } = await ask(t, adminUrl, { path: '/metrics' })
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]))
}

/** Waits until nothing runs, and checks that the gateway's books are in order: no open reservation, and balances that are the sum of the records. */
export async function settled(t: Test, gateway: TestGateway): Promise<void> {
  await eventually(async () => (await figures(t, gateway)).get('sluice_exchanges_running') === 0)
}
