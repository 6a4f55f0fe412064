// A plugin that makes a process fail which is to take the place of another, in the way that SABOTAGE names. It says so
// on standard error when the process comes there.
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin } from '../../../core/contract/contract.ts'

const point = process.channel && process.env['SABOTAGE']

const say = (): boolean => process.stderr.write(`a process that ${point}\n`)

/** Says that it came here, and waits for the file `go` beside the configuration. */
async function wait(): Promise<void> {
  say()
  while (!existsSync(join(dirname(process.argv.at(-1)!), 'go'))) await sleep(20)
}

if (point === 'waits while it loads') await wait()
// Nothing that the process itself does ends this. It takes no CPU time, of which a loop would take a minute and a half.
if (point === 'hangs while it loads') {
  say()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}

export default definePlugin({
  name: 'sabotage',
  summary: 'Fails in a process that takes the place of another.',
  options: {},
  async setup() {
    if (point === 'waits with the store') await wait()
    else if (point && point !== 'waits while it loads') say()
    if (point === 'hangs with the store') await new Promise(() => {})
    if (point === 'fails with the store') throw new Error('sabotage')
    if (point === 'takes the store with it') {
      const store = join(dirname(process.argv.at(-1)!), 'sluice.db')
      rmSync(store)
      mkdirSync(store)
      throw new Error('sabotage')
    }
    return {}
  }
})
