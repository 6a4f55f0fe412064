// Requests that race over the workers of the program on limits and budgets of one key: what is admitted is what one
// process admits, by an oracle of its own, and each has its charge.
import { join } from 'node:path'
import t from 'tap'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { PlannedUpstream } from '../../money/planned.ts'
import { launch } from '../../money/process.ts'
import { callers, race } from '../../money/races.ts'
import { ask, configOf, folder, journal, long } from '../../money/rig.ts'

t.setTimeout(long ? 1_800_000 : 600_000)

const [each, all] = long ? [1000, 10_000] : [60, 300]

for (const workers of long ? [2, 4] : [2])
  t.test(`what races over ${workers} workers is admitted as by one process, and charged once`, async (t) => {
    const upstream = await PlannedUpstream.start(t)
    const home = folder(t)
    const file = join(home, 'sluice.db')
    const store = { sqlite: file, durability: 'process' }
    const running = await launch(t, home, configOf([upstream], { workers, store, ...callers() }))
    await race(t, {
      upstream,
      each,
      all,
      ask: (_index, plan, how) => ask(running.url, plan, how),
      async journal() {
        await running.end('SIGTERM')
        return journal(file)
      }
    })
    t.same(verify(file), [], 'the ledger is in order')
  })
