// How a store is that each thread of a gateway has for itself.
import t from 'tap'
import { countedBy, joinedStoreHealth, nothingCounted } from '../../../core/workers/store-health.ts'
import { newHealth } from '../../../core/store/embedded/writer/store-health.ts'
import type { StoreHealth, StoreTrouble } from '../../../core/store/store.ts'

const trouble = (ailment: string, refuses: boolean, since: number, error = ''): StoreTrouble => ({
  ailment,
  text: ailment,
  refuses,
  cause: '',
  remedy: '',
  error,
  since
})
const health = (more: Partial<StoreHealth> = {}): StoreHealth => ({ ...newHealth(), ...more })

t.test('it is as the thread says that has it worst, and what they did is added up', async (t) => {
  const own = health({ commits: 1, operations: 2, commitSeconds: 0.5, queued: 1, droppedRecords: 3 })
  const well = health({ commits: 10, operations: 20, commitSeconds: 1, queued: 4, droppedRecords: 5 })
  const ill = health({
    healthy: false,
    lastError: 'gone',
    failures: 1,
    troubles: [trouble('money', true, 20), trouble('limits', false, 5, 'later'), trouble('records', false, 7)]
  })
  const also = health({ troubles: [trouble('money', false, 10), trouble('limits', false, 3, 'first')] })
  const found = joinedStoreHealth(own, [well, ill, also], { ...nothingCounted, commits: 100 })
  t.match(found, {
    healthy: false,
    lastError: 'gone',
    failures: 1,
    commits: 111,
    operations: 22,
    commitSeconds: 1.5,
    queued: 5,
    droppedRecords: 3
  })
  t.same(
    found.troubles.map(({ ailment, refuses, since }) => [ailment, refuses, since]),
    [
      ['money', true, 20],
      ['limits', false, 3],
      ['records', false, 7]
    ]
  )
  t.match(joinedStoreHealth(own, [well], nothingCounted), { healthy: true, troubles: [], lastError: undefined })
})

t.test('what those counted that have ended stays, and how they were does not', async (t) => {
  const ended = countedBy(nothingCounted, health({ commits: 3, queued: 9 }), health({ commits: 4, failures: 2 }))
  t.same(ended, { failures: 2, commits: 7, operations: 0, commitSeconds: 0 })
  t.match(joinedStoreHealth(health({ commits: 1 }), [], ended), { commits: 8, failures: 2, queued: 0 })
})
