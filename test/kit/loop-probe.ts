// Loaded into a gateway before it starts (`--import`). Measures how long its event loop is blocked, and writes that to
// a file on SIGWINCH.
import { writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { isMainThread } from 'node:worker_threads'
import { slowness, used } from './turns.ts'

/** The figures since the last request for them, in milliseconds. */
export interface Held {
  /** The most CPU time between two turns of the event loop, as on a quiet machine: see {@link slowness}. */
  cpu: number
  /** The delay of a timer that only one in a thousand exceeds, and the longest, in real time. */
  p999: number
  longest: number
}

const file = process.env['SLUICE_LOOP_FILE']

if (isMainThread && file !== undefined) {
  const delays = monitorEventLoopDelay({ resolution: 1 })
  let [cpu, before] = [0, used()]
  const look = (): void => {
    const now = used()
    cpu = Math.max(cpu, now - before)
    before = now
    setTimeout(look, 1).unref()
  }
  process.on('SIGWINCH', () => {
    const held: Held = { cpu: cpu / slowness(), p999: delays.percentile(99.9) / 1e6, longest: delays.max / 1e6 }
    delays.reset()
    cpu = 0
    writeFileSync(file, JSON.stringify(held))
    before = used()
  })
  delays.enable()
  look()
}
