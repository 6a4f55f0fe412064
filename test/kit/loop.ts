// A gateway whose event loop is watched, in a process of its own.
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { spawnGateway } from './gateway.ts'
import type { GatewaySetup, Overrides, SpawnedGateway } from './gateway.ts'
import type { Held } from './loop-probe.ts'
import { eventually } from './probe.ts'

/** A running gateway, and for how long its loop was held since the last time that this was asked. */
export interface WatchedGateway extends SpawnedGateway {
  held(): Promise<Held>
}

/** Starts one; what the start takes is not counted. */
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
        // It is not written yet, or not all of it.
      }
      return answer !== undefined
    }, 10_000)
    return answer!
  }
  await held()
  return { ...running, held }
}
