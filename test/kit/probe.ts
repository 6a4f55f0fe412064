// Looks at what a test leaves behind: memory, open handles, and the gateway's books through its admin API.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Test } from 'tap'
import { ask } from './client.ts'
import type { TestGateway } from './gateway.ts'

/** Milliseconds between two looks. */
const pause = 10

/**
 * Waits for a state that follows an event by a moment. Give it a condition, not an assertion: a failed assertion stays
 * failed. A look counts as the pause before it, however long both took: a busy machine gives more time, and a quiet one
 * no more than is said.
 * @throws when the condition does not hold within that time
 */
export async function eventually(condition: () => boolean | Promise<boolean>, withinMs = 2000): Promise<void> {
  for (let looks = 0; !(await condition()); looks++) {
    if (looks * pause > withinMs) throw new Error(`still not so after ${looks} looks: ${condition}`)
    await sleep(pause)
  }
}

/**
 * Milliseconds since it was made, for bounds above: they pass in steps of a timer, so that hardly any pass while the
 * machine has no time for this process. Nor do any while it computes, for which there is `process.cpuUsage`.
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

/** Resident memory in bytes, of this process or another. */
export function residentBytes(pid?: number): number {
  if (pid === undefined) return process.memoryUsage.rss()
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(kilobytes?.[1]) * 1024
}

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Bytes that this process cannot let go of: heap and buffers after a collection. */
export function heldBytes(): number {
  // Twice: another thread gives back the memory of buffers, and only the next collection waits for it.
  collectGarbage()
  collectGarbage()
  // Not `external`, which still counts buffers that were just collected.
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

/**
 * The figures of the metrics endpoint, by name with labels: `sluice_exchanges_running`,
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
 * Waits until nothing runs and every exchange is written down, then holds the books against the records: no open
 * reservation, and what a tenant and a key have spent is what their requests cost.
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

/** All entries of a list of the admin API. */
async function* pages(gateway: TestGateway, path: string): AsyncGenerator<any> {
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: { data: unknown[]; next: string | null } = await gateway.admin(
      `${path}?limit=1000${cursor && `&cursor=${encodeURIComponent(cursor)}`}`
    )
    yield* page.data
    cursor = page.next
  }
}
