// The slots of the processes of one machine: who has one, its name, and what is left in it.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { NodeSlot } from '../../../../core/store/cluster/node-slot.ts'
import { openSharedStore } from '../../../../core/store/cluster/store.ts'
import { silentLog } from '../../../../core/telling/log.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../kit/cluster-money.ts'
import { redisOptions } from '../../../kit/limits.ts'
import { sharedPostgres } from '../../../kit/postgres.ts'
import { nodesMissing } from '../../../kit/nodes.ts'
import { eventually } from '../../../kit/probe.ts'
import { RedisServer } from '../../../kit/redis.ts'
import { reserve, scope, used } from '../embedded/sample.ts'
import type { Awaitable } from '../../../../core/awaitable.ts'
import type { Reservation } from '../../../../core/store/ledger.ts'

t.setTimeout(300_000)

t.test('each process has a slot of its own, and the next one gets the name of who left it', async (t) => {
  const folder = t.testdir()
  const [one, two] = [NodeSlot.take(folder), NodeSlot.take(folder)]
  t.match([one.name, two.name], [/^node-[0-9a-f]{16}$/, /^node-[0-9a-f]{16}$/])
  t.not(one.name, two.name)
  t.same(NodeSlot.abandoned(folder), [], 'nothing is left of those that run')
  one.release()
  const again = NodeSlot.take(folder)
  t.equal(again.name, one.name)
  t.equal(again.log, join(folder, 'node-1', 'log'))
  two.release()
  t.same(NodeSlot.abandoned(folder), [], 'and of one that has written everything neither')
  again.release()
})

t.test('workers are nodes in the slot of their process, and what they left is found with it', async (t) => {
  const folder = t.testdir()
  const slot = NodeSlot.take(folder)
  const { name, log } = slot.worker(2)
  t.same([name, log], [`${slot.name}/2`, join(folder, 'node-1', 'worker-2', 'log')])
  mkdirSync(log, { recursive: true })
  t.same(slot.left(), [], 'it has left nothing')
  writeFileSync(join(log, 'something.log0'), '')
  t.same(slot.left(), [{ name, log }])
  t.same(slot.left(1), [{ name, log }], 'as its process has one worker now')
  t.same(slot.left(2), [], 'it goes on by itself')
  t.same(NodeSlot.abandoned(folder), [], 'its process runs')
  slot.release()
  const found = NodeSlot.abandoned(folder)
  t.same(
    found.map((one) => [one.name, one.left()]),
    [[slot.name, [{ name, log }]]]
  )
  for (const one of found) one.release()
})

t.test('a damaged name is told of, and is not replaced by another', async (t) => {
  const folder = t.testdir()
  NodeSlot.take(folder).release()
  const file = join(folder, 'node-1', 'name')
  writeFileSync(file, readFileSync(file, 'utf8').slice(0, 9))
  t.throws(() => NodeSlot.take(folder), { message: /node-1\/name is damaged: remove .*node-1, unless its log has/ })
})

for (const who of ['process', 'worker'] as const)
  t.test(
    `what a ${who} could not send is sent by another process of the same machine`,
    { skip: nodesMissing },
    async (t) => {
      const [server, url, folder] = [await sharedPostgres(), await moneyBook(), logFolder(t)]
      const [first, gone] = [NodeSlot.take(folder), NodeSlot.take(folder)]
      const place = who === 'process' ? gone : gone.worker(1)
      const node = await moneyNode(t, url, place.name, { folder: place.log })
      const held = reserve(node.ledger, [scope('tenant', 'acme')], 1000n) as unknown as Awaitable<Reservation>
      const reservation = await held
      await reservation.durable
      reservation.dispatched('openai')
      await server.stop('QUIT')
      await reservation.settle({ usage: used(7), amount: 7n, source: 'upstream', channel: 'openai' })
      await node.kill()
      gone.release()
      first.release()
      await server.resume()
      const redis = await RedisServer.start(t)
      const store = await openSharedStore({
        place: {
          postgres: { url, listen_url: undefined, shown: 'postgres://test' },
          redis: { ...redisOptions, url: redis.url },
          on_limits_unavailable: 'share',
          folder
        },
        durability: 'process',
        bounds: { routeAge: 1e9, answers: { age: 1e9, size: 2 ** 30 }, requests: { age: 1e9, size: 2 ** 30 } },
        log: silentLog
      })
      t.match(store.nodes(), [{ name: first.name, own: true }])
      await eventually(async () => (await server.sql('select 1 from sluice.journal', url)).length > 0)
      t.match(await server.sql('select node, amount, source from sluice.journal', url), [
        { node: place.name, amount: '7', source: 'upstream' }
      ])
      await store.close()
      t.same(NodeSlot.abandoned(folder), [], 'nothing is left')
      t.same(await brokenIn(url), [])
    }
  )
