// Starts a gateway in a process of its own, and measures how long its event loop is blocked.
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { spawnGateway } from './gateway.ts'
import type { GatewaySetup, Overrides, SpawnedGateway } from './gateway.ts'
import type { Held } from './loop-probe.ts'
import { eventually } from './probe.ts'

/** A running gateway. `held` gives the figures since it was last called. */
export interface WatchedGateway extends SpawnedGateway {
  held(): Promise<Held>
}

/** Starts a gateway. The time of the start is not counted. */
export async function watchedGateway(
  t: Test,
  overrides: Overrides = {},
  setup: Omit<GatewaySetup, 'plugins'> = {}
): Promise<WatchedGateway> {
  const file = join(t.testdirName, 'held.json')
  const env = { NODE_OPTIONS: `--import=${new URL('loop-probe.ts', import.meta.url).href}`, SLUICE_LOOP_FILE: file }
  const running = await spawnGateway(t, overrides, { ...setup, env: { ...setup.env, ...env } })
  const held = async (): Promise<Held> => {
    rmSync(file, { force: true })
    running.process.kill('SIGUSR2')
    let answer: Held | undefined
    await eventually(() => {
      try {
        answer = JSON.parse(readFileSync(file, 'utf8')) as Held
      } catch {
        // The file is missing or incomplete so far.
      }
      return answer !== undefined
    }, 10_000)
    return answer!
  }
  await held()
  return { ...running, held }
}
