// Kept answers of gateways that share a store: none is there before its charge.
import { hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import type { KeptAnswer } from '../../../../core/store/answers.ts'
import { Database } from '../../../../core/store/cluster/database/database.ts'
import { openSharedStore } from '../../../../core/store/cluster/store.ts'
import { silentLog } from '../../../../core/telling/log.ts'
import { brokenIn, logFolder, moneyBook } from '../../../kit/cluster-money.ts'
import { redisOptions } from '../../../kit/limits.ts'
import { nodesMissing } from '../../../kit/nodes.ts'
import { sharedPostgres } from '../../../kit/postgres.ts'
import { RedisServer } from '../../../kit/redis.ts'
import { scope } from '../embedded/sample.ts'
import { charge, hold } from './money/oracle.ts'

const id = (name: string): Buffer => hash('sha256', name, 'buffer')
const answer = (text: string): KeptAnswer => ({
  asked: id('asked'),
  status: 200,
  type: 'application/json',
  headers: {},
  streamed: false,
  body: Buffer.from(text)
})

t.test('an answer is found by nobody before its charge is in the book', { skip: nodesMissing }, async (t) => {
  const [server, url, redis] = [await sharedPostgres(), await moneyBook(), await RedisServer.start(t)]
  const store = await openSharedStore({
    place: {
      postgres: { url, listen_url: undefined, shown: 'postgres://test' },
      redis: { ...redisOptions, url: redis.url },
      on_limits_unavailable: 'share',
      folder: logFolder(t)
    },
    durability: 'process',
    bounds: { routeAge: 1e9, answers: { age: 1e9, size: 2 ** 30 }, requests: { age: 1e9, size: 2 ** 30 } },
    log: silentLog
  })
  t.teardown(() => store.close())
  const other = await Database.open({ url, name: 'other' })
  t.teardown(() => other.close())
  const { answers, ledger } = store
  const charged = async (): Promise<number> => (await server.sql('select 1 from sluice.journal', url)).length

  const ways = {
    'settled before it is put': (put: () => void, end: () => void) => (end(), put()),
    'settled after it was put': (put: () => void, end: () => void) => (put(), end())
  }
  for (const [index, [way, together]] of Object.entries(ways).entries())
    await t.test(way, async (t) => {
      const reservation = await hold(ledger, [scope('tenant', 'acme')], 10n, { time: Date.now() })
      const held = Promise.withResolvers<void>()
      const lock = Promise.withResolvers<void>()
      const locked = other.changes.transaction(
        async (transaction) => {
          await transaction.query('select 1 from sluice.node for update')
          lock.resolve()
          await held.promise
        },
        { idle: 0 }
      )
      await lock.promise
      let ends: Promise<unknown> = Promise.resolve()
      together(
        () => (ends = Promise.all([ends, answers.put(id(way), 'acme', answer(way), reservation.requestId)])),
        () => (ends = Promise.all([ends, reservation.settle(charge(7))]))
      )
      await nextTurn()
      // It is written behind everything that could be written until now.
      await answers.put(id(`${way}, another`), 'acme', answer('another'))
      t.equal(await answers.find(id(way)), undefined)
      t.equal(await charged(), index)
      held.resolve()
      await locked
      await ends
      t.same(await answers.find(id(way)), answer(way))
      t.equal(await charged(), index + 1)
    })
  t.same(await brokenIn(url), [])
})
