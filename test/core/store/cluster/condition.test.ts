// What is wrong with a shared store, as its health and its readiness tell it.
import t from 'tap'
import { Condition } from '../../../../core/store/cluster/condition.ts'
import type { ConditionParts } from '../../../../core/store/cluster/condition.ts'

/** The parts of a sound store, but for some. */
function partsWith(more: Partial<Record<keyof ConditionParts, unknown>>): ConditionParts {
  const figures = { commits: 0, operations: 0, commitSeconds: 0, queued: 0 }
  return {
    database: { changes: {}, reads: {}, listener: { listening: true } },
    money: { trouble: undefined, figures },
    documents: { behind: 0 },
    requests: { dropped: 0 },
    works: { delay: undefined },
    presence: { outdated: undefined },
    limits: { health: { usable: true } },
    onLimitsUnavailable: 'share',
    ...more
  } as unknown as ConditionParts
}

t.test('why money cannot be written is said with what that means', (t) => {
  const error = 'PostgreSQL: could not extend file: No space left on device (53100)'
  const trouble = { text: 'the database cannot be written', error, refuses: false }
  const condition = new Condition(partsWith({ money: { trouble, figures: {} } }))
  t.teardown(() => condition.close())
  t.match(condition.health.troubles, [
    { ailment: 'money', cause: /No space left on device \(53100\): what is held goes on/ }
  ])
  t.end()
})

t.test('a gateway that a newer version has left behind gets no requests', (t) => {
  const condition = new Condition(partsWith({ presence: { outdated: 'the database belongs to a newer Sluice' } }))
  t.teardown(() => condition.close())
  t.match(condition.health, { healthy: false, troubles: [{ ailment: 'schema', refuses: true }] })
  t.end()
})

t.test('work that waits for its hold is a trouble when that lasts', (t) => {
  const works: { delay: ConditionParts['works']['delay'] } = { delay: undefined }
  const condition = new Condition(partsWith({ works }))
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
