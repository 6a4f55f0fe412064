// Servers that take no changes: a connection to one is not kept, and nobody reads from a standby.
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { readAddress } from '../../../../../core/store/cluster/database/address.ts'
import { DatabaseFault } from '../../../../../core/store/cluster/database/fault.ts'
import { Lane } from '../../../../../core/store/cluster/database/lane.ts'
import { Postgres, postgresMissing } from '../../../../kit/postgres.ts'
import { eventually } from '../../../../kit/probe.ts'

const skip = postgresMissing

t.test(
  'a connection whose server takes no changes is not kept, and the same may be done again',
  { skip },
  async (t) => {
    const server = await Postgres.start()
    const url = await server.database()
    const name = new URL(url).pathname.slice(1)
    await server.sql(`create table thing (id int); alter database ${name} set default_transaction_read_only = on`, url)
    const lane = new Lane(readAddress(url), 'test', 1)
    t.teardown(() => lane.close())
    t.equal((await lane.query('select id from thing')).count, 0, 'reads are possible')
    const changes = [
      lane.query('insert into thing values (1)', [], { wait: 20_000 }),
      lane.transaction((transaction) => transaction.query('insert into thing values (2)'), { wait: 20_000 })
    ]
    for (const change of changes)
      await t.rejects(change, { name: 'DatabaseFault', code: 'readonly', unknown: false, conflict: true, away: true })
    await server.sql(`alter database ${name} reset default_transaction_read_only`)
    await eventually(async () => {
      try {
        return (await lane.query('insert into thing values (3)', [], { wait: 20_000 })).count === 1
      } catch (error) {
        if (error instanceof DatabaseFault && error.code === 'readonly') return false
        throw error
      }
    }, 30_000)
    t.same(await server.sql('select id from thing', url), [{ id: 3 }])
  }
)

t.test('a standby is not read from, and is used once it is promoted', { skip }, async (t) => {
  const server = await Postgres.start()
  const url = await server.database()
  await server.stop('INT')
  writeFileSync(join(dirname(server.socket), 'data', 'standby.signal'), '')
  await server.resume()
  const lane = new Lane(readAddress(url), 'test', 1)
  t.teardown(() => lane.close())
  await eventually(() => lane.trouble !== undefined)
  t.match(lane.trouble, { code: 'readonly', message: /is a standby/ })
  await t.rejects(lane.query('select 1', [], { wait: 200 }), { code: 'readonly', unknown: false })
  await server.sql('select pg_promote()')
  t.equal((await lane.query('select 1', [], { wait: 30_000 })).count, 1)
})
