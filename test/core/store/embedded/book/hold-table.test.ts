// The table of holds: found by request and part, however many there are and whatever their names.
import t from 'tap'
import { HoldTable } from '../../../../../core/store/embedded/book/hold-table.ts'
import type { Entered } from '../../../../../core/store/embedded/book/hold-table.ts'

class Named implements Entered {
  readonly requestId: string
  readonly part: string
  tableNext: this | undefined = undefined

  constructor(requestId: string, part = '') {
    this.requestId = requestId
    this.part = part
  }
}

t.test('a hold is found by its request and part, and no more once it is gone', async (t) => {
  const table = new HoldTable<Named>()
  const [whole, first, second] = [new Named('one'), new Named('one', 'a'), new Named('one', 'b')]
  t.notOk(table.has('one'))
  for (const hold of [whole, first, second]) table.add(hold)
  t.equal(table.get('one', ''), whole)
  t.equal(table.get('one', 'b'), second)
  t.equal(table.get('one', 'c'), undefined)
  t.equal(table.get('two', ''), undefined)
  table.delete(whole)
  table.delete(whole)
  t.equal(table.get('one', ''), undefined)
  t.ok(table.has('one'), 'its parts are there')
  for (const hold of [first, second]) table.delete(hold)
  t.notOk(table.has('one'))
  t.equal([...table].length, 0)
})

t.test('holds that come and go in any order are what a map would have', async (t) => {
  const table = new HoldTable<Named>()
  const expected = new Map<string, Named>()
  // Some names end as others do, so that they share a place.
  const names = Array.from({ length: 3000 }, (_, n) => (n % 20 === 0 ? `${n}-same-end` : `${n}`))
  let seed = 1
  const next = (): number => (seed = (seed * 48_271) % 2_147_483_647)
  for (let step = 0; step < 40_000; step++) {
    const name = names[next() % names.length]!
    const known = expected.get(name)
    if (table.get(name, '') !== known) throw new Error(`${name} is found wrongly after ${step} steps`)
    if (known) table.delete(known)
    else table.add(new Named(name))
    if (known) expected.delete(name)
    else expected.set(name, table.get(name, '')!)
  }
  t.strictSame([...table].map(({ requestId }) => requestId).toSorted(), [...expected.keys()].toSorted())
  for (const [name, hold] of expected) if (table.get(name, '') !== hold) t.fail(`${name} is lost`)
  for (const hold of expected.values()) table.delete(hold)
  t.equal([...table].length, 0)
})

/** Counts how often the table looks at a hold. */
class Counted implements Entered {
  readonly part = ''
  readonly name: string
  readonly looked: { times: number }
  tableNext: this | undefined = undefined

  constructor(name: string, looked: { times: number }) {
    this.name = name
    this.looked = looked
  }

  get requestId(): string {
    this.looked.times++
    return this.name
  }
}

t.test('a hold is found among thousands by looking at one or two, also when most of them have gone', async (t) => {
  let seed = 7
  const hex = (): string => ((seed = (seed * 48_271) % 2_147_483_647) % 65_536).toString(16).padStart(4, '0')
  const uuid = (): string => `019ab${hex().slice(1)}-${hex()}-7${hex().slice(1)}-${hex()}-${hex()}${hex()}${hex()}`
  const looked = { times: 0 }
  const table = new HoldTable<Counted>()
  const holds = Array.from({ length: 40_000 }, () => new Counted(uuid(), looked))
  const mean = (some: readonly Counted[]): number => {
    looked.times = 0
    for (const { name } of some) table.get(name, '')
    return looked.times / some.length
  }
  for (const hold of holds.slice(0, 1000)) table.add(hold)
  t.ok(mean(holds.slice(0, 1000)) < 1.6, `of a thousand: ${mean(holds.slice(0, 1000))}`)
  for (const hold of holds.slice(1000)) table.add(hold)
  t.ok(mean(holds) < 1.4, `of forty thousand: ${mean(holds)}`)
  for (const hold of holds.slice(0, 39_000)) table.delete(hold)
  const last = holds.slice(39_000)
  t.ok(mean(last) < 1.05, `of the last thousand: ${mean(last)}`)
})

t.test('what is gone refers to nothing that was there beside it', async (t) => {
  const table = new HoldTable<Named>()
  const holds = Array.from({ length: 3000 }, (_, n) => new Named(`request ${n}`))
  for (const hold of holds) table.add(hold)
  for (const hold of holds.slice(0, 2000)) table.delete(hold)
  t.ok(holds.slice(0, 2000).every(({ tableNext }) => tableNext === undefined))
})
