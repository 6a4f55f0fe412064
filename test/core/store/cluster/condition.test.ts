// What is wrong with a shared store, as its health and its readiness tell it.
import t from 'tap'
import { Condition } from '../../../../core/store/cluster/condition.ts'
import type { ConditionParts } from '../../../../core/store/cluster/condition.ts'

t.test('work that waits for its hold is a trouble when that lasts', (t) => {
  const works: { delay: ConditionParts['works']['delay'] } = { delay: undefined }
  const figures = { commits: 0, operations: 0, commitSeconds: 0, queued: 0 }
  const condition = new Condition({
    database: { changes: {}, reads: {}, listener: { listening: true } },
    money: { trouble: undefined, figures },
    documents: { behind: 0 },
    requests: { dropped: 0 },
    limits: { health: { usable: true } },
    onLimitsUnavailable: 'share',
    works
  } as unknown as ConditionParts)
  t.teardown(() => condition.close())
  const troubles = (): unknown => condition.health.troubles
  t.same(troubles(), [])
  works.delay = { count: 2, since: Date.now(), error: 'PostgreSQL: no answer' }
  t.same(troubles(), [], 'a moment is none')
  works.delay = { ...works.delay, since: Date.now() - 6000 }
  t.match(troubles(), [
    { ailment: 'work', text: /2 tasks and background responses/, cause: /PostgreSQL: no answer/, refuses: false }
  ])
  t.match(condition.health, { healthy: true, failures: 1, lastError: 'PostgreSQL: no answer' })
  works.delay = undefined
  t.same(troubles(), [])
  t.end()
})
