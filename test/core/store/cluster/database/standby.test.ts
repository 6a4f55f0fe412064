// Servers that take no changes: a connection to one is not kept, and nobody reads from a standby.
import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { readAddress } from '../../../../../core/store/cluster/database/address.ts'
import { DatabaseFault } from '../../../../../core/store/cluster/database/fault.ts'
import { Lane } from '../../../../../core/store/cluster/database/lane.ts'
import { Lineage } from '../../../../../core/store/cluster/database/lineage.ts'
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

t.test('a server that was replaced is not used when it comes back', { skip }, async (t) => {
  const server = await Postgres.start()
  const url = await server.database()
  const data = join(dirname(server.socket), 'data')
  const lane = new Lane(readAddress(url), 'test', 1, new Lineage())
  t.teardown(() => lane.close())
  t.equal((await lane.query('select 1', [], { wait: 30_000 })).count, 1)
  await server.stop('INT')
  execFileSync('cp', ['-a', data, `${data}-old`])
  writeFileSync(join(data, 'standby.signal'), '')
  await server.resume()
  await server.sql('select pg_promote()')
  t.equal((await lane.query('select 1', [], { wait: 30_000 })).count, 1, 'the one that replaces it is')
  await server.stop('INT')
  execFileSync('mv', [data, `${data}-new`])
  execFileSync('mv', [`${data}-old`, data])
  await server.resume()
  await eventually(() => lane.trouble?.code === 'replaced', 60_000)
  t.match(lane.trouble!.message, /is on timeline 1, and 2 was there before\. Stop that server/)
  await t.rejects(lane.query('select 1', [], { wait: 200 }), { code: 'replaced', unknown: false, away: true })
  await server.stop('INT')
  rmSync(data, { recursive: true })
  execFileSync('mv', [`${data}-new`, data])
  await server.resume()
  t.equal((await lane.query('select 1', [], { wait: 30_000 })).count, 1)
})

t.test('the data of another cluster are not those of before', async (t) => {
  const lineage = new Lineage()
  lineage.see({ system: '1', timeline: 3 }, 'db')
  lineage.see({ system: '1', timeline: 4 }, 'db')
  t.throws(() => lineage.see({ system: '2', timeline: 9 }, 'db'), {
    code: 'replaced',
    message: /another cluster's \(2\)/
  })
  t.throws(() => lineage.see({ system: '1', timeline: 3 }, 'db'), { code: 'replaced' })
})
