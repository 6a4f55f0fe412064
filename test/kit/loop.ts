// Starts a gateway in a process of its own, and measures how long its event loop is blocked.
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { spawnGateway } from './gateway.ts'
import type { GatewaySetup, Overrides, SpawnedGateway } from './gateway.ts'
import type { Held } from './loop-probe.ts'
import { eventually } from './probe.ts'

/** A running gateway. */
export interface WatchedGateway extends SpawnedGateway {
  /**
   * How long `act` held the loop. When that is `most` milliseconds of CPU time or more, `act` is done again, up to
   * four times, and the least is given. What the code does costs the same each time. What a busy machine adds does not:
   * cold caches, and threads of the garbage collector that get no time, so that the loop's thread does their work.
   */
  held(act: () => Promise<unknown>, most: number): Promise<Held>
}

/** How often something is done before it counts as too long. */
const tries = 5

/** Starts a gateway. */
export async function watchedGateway(
  t: Test,
  overrides: Overrides = {},
  setup: Omit<GatewaySetup, 'plugins'> = {}
): Promise<WatchedGateway> {
  const file = join(t.testdirName, 'held.json')
  const probe = new URL('loop-probe.ts', import.meta.url).href
  const env = { NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import=${probe}`, SLUICE_LOOP_FILE: file }
  const running = await spawnGateway(t, overrides, { ...setup, env: { ...setup.env, ...env } })
  /** The figures since the last call. */
  const figures = async (): Promise<Held> => {
    rmSync(file, { force: true })
    running.process.kill('SIGWINCH')
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
  return {
    ...running,
    async held(act, most) {
      let least: Held | undefined
      for (let turn = 0; turn < tries && !(least !== undefined && least.cpu < most); turn++) {
        await figures()
        await act()
        const now = await figures()
        if (least === undefined || now.cpu < least.cpu) least = now
      }
      return least!
    }
  }
}
