// What every store promises of documents and the audit log: seen at once, by all who watch, with an entry for each.
import t from 'tap'
import { changeOf, documentKind } from '../../../../core/store/documents.ts'
import type { DocumentChange } from '../../../../core/store/documents.ts'
import { eventually } from '../../../kit/probe.ts'
import { eachStore } from '../../../kit/stores.ts'

const kind = documentKind<{ name: string }>('thing')

eachStore(
  t,
  ['documents'],
  'a change is there once it is acknowledged, and everybody hears of it',
  async (t, { services: { documents } }) => {
    const heard: DocumentChange[] = []
    const unwatch = documents.watch((changes) => void heard.push(...changes))
    await documents.change([changeOf(kind, 'one', { name: 'first' }), changeOf(kind, 'two', { name: 'second' })], {
      action: 'made',
      object: 'one'
    })
    await eventually(() => heard.length === 2)
    t.same(documents.find(kind, 'one'), { name: 'first' })
    t.same(
      documents.all(kind).map(({ name }) => name),
      ['first', 'second']
    )
    await documents.change([changeOf(kind, 'one', null)], { action: 'removed', object: 'one' })
    await eventually(() => documents.find(kind, 'one') === undefined)
    documents.note([changeOf(kind, 'three', { name: 'third' })])
    await eventually(() => documents.find(kind, 'three')?.name === 'third')
    unwatch()
    await documents.change([changeOf(kind, 'four', { name: 'fourth' })])
    t.same(
      heard.map(({ id, value }) => [id, value === null]),
      [
        ['one', false],
        ['two', false],
        ['one', true],
        ['three', false]
      ]
    )
  }
)

eachStore(
  t,
  ['documents'],
  'the audit log has an entry for each change, in order, and is searched',
  async (t, { services: { documents } }) => {
    for (let i = 0; i < 5; i++)
      await documents.change([changeOf(kind, `n${i}`, { name: `n${i}` })], {
        action: i % 2 ? 'odd' : 'even',
        object: `n${i}`
      })
    const all = await documents.audit({ limit: 10 })
    t.same(
      all.map(({ seq, entry }) => [seq, entry['object']]),
      [4, 3, 2, 1, 0].map((i) => [i + 1, `n${i}`])
    )
    t.match(all[0]!.hash, /^[0-9a-f]{64}$/)
    t.equal(new Set(all.map(({ hash }) => hash)).size, 5)
    const odd = await documents.audit({ limit: 10, members: { action: 'odd' } })
    t.same(
      odd.map(({ seq }) => seq),
      [4, 2]
    )
    t.same(
      (await documents.audit({ limit: 1, before: 3 })).map(({ seq }) => seq),
      [2]
    )
  }
)
