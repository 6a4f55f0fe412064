// A plugin that makes a process fail which is to take the place of another, at the point that SABOTAGE names.
import { mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { definePlugin } from '../../../core/contract/contract.ts'

const point = process.channel && process.env['SABOTAGE']

// Nothing that the process itself does ends this.
while (point === 'hangs while it loads');

export default definePlugin({
  name: 'sabotage',
  summary: 'Fails in a process that takes the place of another.',
  options: {},
  async setup() {
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
