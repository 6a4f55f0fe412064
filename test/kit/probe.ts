// Measures what a test leaves behind: memory, open handles, and the gateway's accounts through its admin API.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Test } from 'tap'
import { ask } from './client.ts'
import type { TestGateway } from './gateway.ts'

/** Milliseconds between two ticks, and between the first checks of a condition. */
const pause = 10
/** Milliseconds between checks of what has not become true for a while: each takes CPU time from what it waits for. */
const longPause = 50

/**
 * Waits for a state that follows an event after a moment. Give it a condition and not an assertion, because a failed
 * assertion stays failed. Each check counts as the pause before it, however long both took. So a busy machine has more
 * time, and a quiet one has just the given time. That is long when left out, as it only ends a test that fails: what
 * the condition waits for may be up to a thread or another process, which a busy machine has no time for.
 * @throws Error when the condition does not become true within that time
 */
export async function eventually(condition: () => boolean | Promise<boolean>, withinMs = 60_000): Promise<void> {
  for (let waited = 0; !(await condition());) {
    if (waited > withinMs) throw new Error(`still not so after ${withinMs} ms: ${condition}`)
    const next = Math.min(pause + Math.floor(waited / 20), longPause)
    await sleep(next)
    waited += next
  }
}

/**
 * Counts milliseconds for upper limits of durations. It counts ticks of a timer, so hardly any pass while the machine
 * has no time for this process. None pass while the process computes; use `process.cpuUsage` for that.
 */
export function stopwatch(): { readonly ms: number } {
  let ms = 0
  setInterval(() => (ms += pause), pause).unref()
  return {
    get ms() {
      return ms
    }
  }
}

/** The resident memory of this process or another, in bytes. */
export function residentBytes(pid?: number): number {
  if (pid === undefined) return process.memoryUsage.rss()
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(kilobytes?.[1]) * 1024
}

setFlagsFromString('--expose-gc')
/** Collects what nothing refers to any more. */
export const collectGarbage = runInNewContext('gc') as () => void

/** The bytes of heap and buffers that this process still uses after a garbage collection. */
export function heldBytes(): number {
  // Twice, because another thread releases the memory of buffers, and only the next collection waits for it.
  collectGarbage()
  collectGarbage()
  // `external` is not used, because it still counts buffers that were just collected.
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

/**
 * The values of the metrics endpoint, by name with labels: `sluice_exchanges_running`,
 * `sluice_attempts_total{channel="a",code="ok"}`.
 */
export async function figures(t: Test, { adminUrl }: Pick<TestGateway, 'adminUrl'>): Promise<Map<string, number>> {
  const { text } = await ask(t, adminUrl, { path: '/metrics' })
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))])
  )
}

/**
 * Waits until no exchange is running and all are recorded. Then compares the accounts with the records: no hold is
 * open, and each tenant and key has spent what its requests cost.
 */
export async function settled(t: Test, gateway: TestGateway): Promise<void> {
  await eventually(async () => (await figures(t, gateway)).get('sluice_exchanges_running') === 0)
  const spent = new Map<string, bigint>()
  for await (const { tenant, key, cost_nano: cost } of pages(gateway, '/admin/v1/requests')) {
    for (const scope of [`tenant:${tenant}`, `key:${key}`]) spent.set(scope, (spent.get(scope) ?? 0n) + BigInt(cost))
  }
  for await (const { scope, window, posted_nano: posted, pending_nano: pending } of pages(
    gateway,
    '/admin/v1/balances'
  )) {
    t.equal(pending, '0', `${scope} holds nothing in ${window}`)
    if (window === 'total' && /^(tenant|key):/.test(scope))
      t.equal(posted, String(spent.get(scope) ?? 0n), `${scope} has paid for its requests`)
  }
}

/** All entries of a list in the admin API. */
async function* pages(gateway: TestGateway, path: string): AsyncGenerator<any> {
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: { data: unknown[]; next: string | null } = await gateway.admin(
      `${path}?limit=1000${cursor && `&cursor=${encodeURIComponent(cursor)}`}`
    )
    yield* page.data
    cursor = page.next
  }
}
