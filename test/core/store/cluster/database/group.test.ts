// What is written together with others: one that the database refuses is refused alone.
import t from 'tap'
import { readAddress } from '../../../../../core/store/cluster/database/address.ts'
import { Group } from '../../../../../core/store/cluster/database/group.ts'
import { Lane } from '../../../../../core/store/cluster/database/lane.ts'
import { postgresMissing, sharedPostgres } from '../../../../kit/postgres.ts'
import { eventually } from '../../../../kit/probe.ts'

const skip = postgresMissing

t.test('of a group those alone are refused that the database refuses', { skip }, async (t) => {
  const server = await sharedPostgres()
  const url = await server.database()
  await server.sql('create table thing (id int primary key check (id <> 7), text text)', url)
  const lane = new Lane(readAddress(url), 'test', 1)
  t.teardown(() => lane.close())
  let statements = 0
  const group = new Group<{ id: number; text: string }>({
    most: 100,
    async write(items) {
      statements++
      const json = JSON.stringify(items)
      await lane.query('insert into thing select * from json_to_recordset($1) r(id int, text text)', [json])
    }
  })
  // A constraint, a text that cannot be stored, and one that was there already.
  const bad = new Map([
    [7, 'a'],
    [40, 'with\0nul'],
    [0, 'twice']
  ])
  await server.sql(`insert into thing values (0, 'first')`, url)
  const written = await Promise.allSettled(
    Array.from({ length: 64 }, (_, id) => group.add({ id, text: bad.get(id) ?? 'good' }))
  )
  const refused = written.flatMap(({ status }, id) => (status === 'rejected' ? [id] : []))
  t.same(refused, [0, 7, 40])
  t.match(written[7], { reason: { code: '23514' } })
  t.equal((await server.sql('select id from thing', url)).length, 62)
  t.ok(statements < 45, `${statements} statements`)
  t.equal(group.failing, false, 'the database is there')
  await server.sql('alter table thing rename to things', url)
  const all = await Promise.allSettled(Array.from({ length: 64 }, (_, id) => group.add({ id: id + 100, text: 'good' })))
  t.ok(all.every(({ status }) => status === 'rejected'))
  t.ok(statements < 46, 'what is wrong with the database is not asked for again and again')
  t.equal(group.failing, true)
})

t.test('what nobody waits for is gathered, and written at once when somebody does', async (t) => {
  const written: number[] = []
  const group = new Group<number>({
    most: 10,
    gathers: 60_000,
    async write(items) {
      written.push(items.length)
    }
  })
  for (let i = 0; i < 3; i++) {
    void group.add(i)
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.same(written, [], 'nobody waits')
  await group.idle()
  t.same(written, [3])
  for (let i = 0; i < 10; i++) void group.add(i)
  await eventually(() => written.length === 2)
  t.same(written, [3, 10], 'as much as a statement has')
  void group.add(1)
  await group.close()
  t.same(written, [3, 10, 1], 'the end waits for nothing')
})
