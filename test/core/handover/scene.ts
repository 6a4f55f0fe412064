// A gateway whose next process is held at a point of the hand-over, for tests that kill one of the two there.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { delta, done, finish, opening, sse, usage } from '../../faults/vendor.ts'
import { ask } from '../../kit/client.ts'
import type { Client } from '../../kit/client.ts'
import { sluice } from '../../kit/command.ts'
import { spawnGateway } from '../../kit/gateway.ts'
import type { SpawnedGateway } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { endOfBody, events, until, Upstream } from '../../kit/upstream.ts'

export const patience = 300_000
const steps = ['sabotage', 'auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']
const plugins = { sabotage: join(import.meta.dirname, 'sabotage.ts') }
const chain = [...steps.map((name) => ({ [name]: {} })), { log: { sink: 'none' } }]

export interface Scene {
  running: SpawnedGateway
  store: string
  /** A client that has seen the beginning of an answer, which ends after `goOn`. */
  client: Client
  goOn: () => void
  /** Lets the next process go on. */
  release: () => void
  overrides: Record<string, unknown>
}

/** A gateway whose next process has come to this point, and waits there. */
export async function stoppedAt(
  t: Test,
  way: 'waits while it loads' | 'waits with the store',
  more: object = {}
): Promise<Scene> {
  const vendor = await Upstream.start(t)
  const { promise, resolve: goOn } = Promise.withResolvers<void>()
  vendor.script(
    sse,
    events([opening, delta('So')]),
    until(promise),
    events([delta(' far'), finish, usage, done]),
    endOfBody()
  )
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const store = join(folder, 'sluice.db')
  const overrides = { plugins, chain, store: { sqlite: store, durability: 'process' }, ...more }
  // A busy machine needs more than a minute to come there.
  const patient = { ...overrides, channels: { vendor: { timeouts: { idle: '10m' } } } }
  const running = await spawnGateway(t, patient, { upstreams: { vendor }, env: { SABOTAGE: way } })
  const client = await running.openChat({ stream: true })
  await client.body('So')
  running.process.kill('SIGUSR2')
  await eventually(() => running.output().includes(`a process that ${way}`), patience)
  const release = (): void => writeFileSync(join(running.file, '..', 'go'), '')
  t.teardown(release)
  return { running, store, client, goOn, release, overrides }
}

/** The process that is being started: the only child of the old one that is a gateway. */
export async function child(t: Test, { running }: Scene): Promise<number> {
  const refused = await ask(t, running.adminUrl, { method: 'POST', path: '/admin/v1/upgrade' })
  t.match([refused.status, refused.json().error.message], [409, /an upgrade is under way already: process \d+/])
  return Number(/process (\d+)/.exec(refused.json().error.message)![1])
}

export function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

export async function inOrder(t: Test, { store }: Scene, charges: number): Promise<void> {
  const verified = await sluice(['ledger', 'verify', '--db', store])
  t.equal(verified.code, 0, verified.out)
  const { out } = await sluice(['ledger', 'export', '--db', store])
  t.equal(out.split('"kind":"settle"').length - 1, charges, 'each answer is charged once')
}

export async function ends(running: SpawnedGateway, pid: number): Promise<void> {
  process.kill(pid, 'SIGTERM')
  await eventually(() => !lives(pid), patience)
  await running.ended
}
