// Statements as they are written to PostgreSQL, and what is read of their answers.
import t from 'tap'
import type { Test } from 'tap'
import { readAddress } from '../../../../../core/store/cluster/database/address.ts'
import { Lane } from '../../../../../core/store/cluster/database/lane.ts'
import { postgresMissing, sharedPostgres } from '../../../../kit/postgres.ts'

t.test('values of every kind come back as they were sent', { skip: postgresMissing }, async (t) => {
  const lane = await laneOf(t)
  const texts = ['', 'a "b" \\c', '{,}', 'NULL', 'ÿ€😀', null]
  const { rows, count } = await lane.query(
    `select $1::text as text, $2::text[] as texts, $3::bigint as big, $4::bigint[] as bigs, $5::bytea as bytes,
       $6::boolean as yes, $7::int[] as none, $8::int as nothing, $9::double precision as number, $10::boolean[] as flags`,
    ['€ \' "', texts, 2n ** 62n, [1n, null, -5n], Buffer.from([0, 255, 92]), true, [], undefined, 1.5, [true, false]]
  )
  t.same(rows, [
    {
      text: '€ \' "',
      texts,
      big: 2n ** 62n,
      bigs: [1n, null, -5n],
      bytes: Buffer.from([0, 255, 92]),
      yes: true,
      none: [],
      nothing: null,
      number: 1.5,
      flags: [true, false]
    }
  ])
  t.equal(count, 1)
})

t.test('a connection goes on behind an error and behind several statements', { skip: postgresMissing }, async (t) => {
  const lane = await laneOf(t)
  await lane.query('create table made (id int primary key); insert into made values (1), (2)')
  await t.rejects(lane.query('insert into made values ($1)', [2]), { code: '23505', unknown: false })
  await t.rejects(lane.query('select $1::int', ['no number']), { code: '22P02', unknown: false })
  t.same(await lane.query('update made set id = id + $1', [10]), { rows: [], count: 2 })
  t.same(await lane.query('select 1 as one; select id from made order by id'), {
    rows: [{ id: 11 }, { id: 12 }],
    count: 2
  })
  t.same(await lane.query('begin'), { rows: [], count: 0 })
})

async function laneOf(t: Pick<Test, 'teardown'>): Promise<Lane> {
  const server = await sharedPostgres()
  const lane = new Lane(readAddress(await server.database()), 'statements', 1)
  t.teardown(() => lane.close())
  return lane
}
