// Documents on a disk that fails: whoever was told that a change was not made finds that it was not.
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { changeOf, documentKind } from '../../../core/store/documents.ts'
import type { AuditEntry, DocumentChange } from '../../../core/store/documents.ts'
import { noteAt } from '../../../core/store/embedded/log/segment.ts'
import { openStore } from '../../../core/store/embedded/store.ts'
import type { Store } from '../../../core/store/store.ts'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { eventually } from '../../kit/probe.ts'
import { noon, query, reserve, scope, settle } from './embedded/sample.ts'

interface Thing {
  is: string
}

const things = documentKind<Thing>('thing')
const put = (id: string, is: string | null): DocumentChange => changeOf(things, id, is === null ? null : { is })
const entry = (action: string): AuditEntry => ({ action })

/** Makes writes to the commit log fail until it is called. */
function failWrites(t: Test): () => void {
  const { write } = fs
  const heal = (): void => {
    fs.write = write
    syncBuiltinESMExports()
  }
  fs.write = ((...call: unknown[]) => {
    if (call[4] === noteAt) return (write as (...call: unknown[]) => void)(...call)
    process.nextTick(call.at(-1) as (error: Error) => void, new Error('ENOSPC: no space left on device, write'))
  }) as typeof write
  syncBuiltinESMExports()
  t.teardown(heal)
  return heal
}

const shown = (store: Store): string[] => store.documents.all(things).map(({ is }) => is)

t.test('a change that its caller was told of as failed is neither in memory nor on disk', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const open = (): Promise<Store> => openStore({ file, durability: 'process', now: () => noon })
  const store = await open()
  const before = ['a', 'b', 'c', 'd']
  for (const id of before) await store.documents.change([put(id, id)], entry(`put ${id}`))

  const told: string[] = []
  store.documents.watch((changes) => told.push(changes.map(({ id }) => id).join()))
  const heal = failWrites(t)
  const settled = settle(store, reserve(store.ledger, [scope('key', 'laptop')], 9n), 4).catch(() => {})
  // They are in one batch and in the next: a change, one of it again, a deletion, something new, and several at once.
  const changes = [
    store.documents.change([put('b', 'b1')], entry('change b')),
    store.documents.change([put('b', 'b2')], entry('change b again')),
    store.documents.change([put('a', null)], entry('delete a')),
    store.documents.change([put('e', 'e1'), put('c', null)], entry('put e'))
  ]
  const refusal = store.documents.change([], entry('refused'))
  t.same(shown(store), ['b2', 'd', 'e1'], 'a change counts at once')
  for (const change of [...changes, refusal]) await t.rejects(change, { code: 'billing_unavailable' })
  t.same(shown(store), before, 'what was not made is not there, and the order is that of before')
  t.same(told.slice(0, 4), ['b', 'b', 'a', 'e,c'])
  t.same([...new Set(told.slice(4).join().split(','))].sort(), ['a', 'b', 'c', 'e'], 'watchers are told')
  await t.rejects(store.documents.change([put('f', 'f1')]), { code: 'billing_unavailable' })

  heal()
  await eventually(() => store.health().healthy, 10_000)
  await settled
  await store.documents.change([put('b', 'b3')], entry('change b at last'))
  const after = ['a', 'b3', 'c', 'd']
  t.same(shown(store), after)
  const audit = await store.documents.audit({ limit: 3 })
  t.same(
    audit.map(({ entry }) => entry['action']),
    ['change b at last', 'refused', 'put d'],
    'of what was not made there is no entry, and what happened all the same has one'
  )
  await store.close()
  t.same(verify(file), [])
  t.equal(query(file, "SELECT 1 FROM journal WHERE kind = 'settle'").length, 1, 'a charge stands')
  const again = await open()
  t.same(shown(again), after)
  await again.close()
})

t.test('what the gateway notes of itself stands, and is written when the disk heals', async (t) => {
  const file = join(t.testdir(), 'sluice.db')
  const store = await openStore({ file, durability: 'process', now: () => noon })
  await store.documents.change([put('a', 'a')])
  const heal = failWrites(t)
  const change = store.documents.change([put('a', 'a1'), put('b', 'b1')])
  store.documents.note([put('a', 'a2')])
  store.documents.note([put('c', 'c1')])
  await t.rejects(change, { code: 'billing_unavailable' })
  t.same(shown(store), ['a2', 'c1'])
  t.throws(() => store.documents.note([put('c', 'c2')]), { code: 'billing_unavailable' })
  heal()
  await eventually(() => store.health().healthy, 10_000)
  await store.close()
  const again = await openStore({ file, durability: 'process', now: () => noon })
  t.same(shown(again), ['a2', 'c1'])
  await again.close()
  t.same(verify(file), [])
})
