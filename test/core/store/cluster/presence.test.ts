// The gateways that share a book in a real PostgreSQL, as each tells of itself.
import t from 'tap'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { Presence } from '../../../../core/store/cluster/presence.ts'
import { postgresMissing, sharedPostgres } from '../../../kit/postgres.ts'

const skip = postgresMissing

t.test('workers are nodes, and are told of with their gateway', { skip }, async (t) => {
  const server = await sharedPostgres()
  const database = await Database.open({ url: await server.book() })
  t.teardown(() => database.close())
  const workers = [await Presence.open(database, 'a/1', '1', 'a'), await Presence.open(database, 'a/2', '1', 'a')]
  const one = await Presence.open(database, 'a', '1')
  const other = await Presence.open(database, 'b', '1')
  t.match(other.nodes, [
    { name: 'a', own: false, workers: 2 },
    { name: 'b', own: true, workers: 0 }
  ])
  t.equal(other.nodes.length, 2)
  t.equal(other.count, 4)
  for (const worker of workers) await worker.close()
  const again = await Presence.open(database, 'a', '1')
  t.match(again.nodes, [{ workers: 0 }, {}])
  t.equal(again.count, 2)
  for (const each of [one, other, again]) await each.close()
})

t.test(
  'gateways that start again at once, and have long been silent, remove nobody and all start',
  { skip },
  async (t) => {
    const server = await sharedPostgres()
    const url = await server.book()
    const databases = await Promise.all(Array.from({ length: 3 }, () => Database.open({ url })))
    t.teardown(() => Promise.all(databases.map((database) => database.close())))
    const names = Array.from({ length: 6 }, (_, i) => `node-${i}`)
    await server.sql(
      `create function linger() returns trigger language plpgsql as $$ begin perform pg_sleep(0.05); return new; end $$;
     create trigger linger before insert or update on sluice.gateway for each row execute function linger()`,
      url
    )
    for (let round = 0; round < 3; round++) {
      await server.sql(
        `insert into sluice.gateway (node, version, config, seen)
       select unnest('{${names.join()}}'::text[]), '1', '', now() - interval '1 hour'
       on conflict (node) do update set seen = excluded.seen`,
        url
      )
      const opened = await Promise.allSettled(
        names.map((name, i) => Presence.open(databases[i % databases.length]!, name, '1'))
      )
      t.same(
        opened.flatMap((one) => (one.status === 'rejected' ? [(one.reason as Error).message] : [])),
        []
      )
      const alive = await server.sql(`select node from sluice.gateway order by node`, url)
      t.same(
        alive.map((row) => (row as { node: string }).node),
        names
      )
      for (const one of opened) if (one.status === 'fulfilled') await one.value.close()
    }
  }
)
