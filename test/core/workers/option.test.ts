// `workers` in gateway.yaml: what it may be, what it does, and what it refuses with a remedy.
import { syncBuiltinESMExports } from 'node:module'
import os, { availableParallelism } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ConfigReader } from '../../../core/program/configuration.ts'
import { plugins } from '../../../plugins/index.ts'
import { gateway, gatewayFile, spawnGateway } from '../../kit/gateway.ts'

t.setTimeout(600_000)

t.test('it is a number from 1 to 64, or auto; one without it', async (t) => {
  const read = async (more: object): Promise<unknown> => {
    const reader = new ConfigReader({ file: gatewayFile(t, more as never), env: {}, plugins })
    return (await reader.read().finally(() => reader.close())).settings.workers
  }
  t.equal(await read({}), 1)
  t.equal(await read({ workers: 3 }), 3)
  t.equal(await read({ workers: 'auto' }), Math.min(64, availableParallelism()))
  for (const [workers, message] of [
    [0, /workers: must be from 1 to 64 or auto, not 0/],
    [65, /workers: must be from 1 to 64 or auto, not 65/],
    [1.5, /workers: must be a whole number or auto, not 1.5/],
    ['atuo', /workers: must be a whole number or auto, not "atuo": did you mean "auto"\?/]
  ] as const)
    await t.rejects(read({ workers }), { message })
  const store = {
    sqlite: undefined,
    durability: undefined,
    postgres: 'postgres://u:p@127.0.0.1:1/x',
    redis: 'redis://127.0.0.1:1'
  }
  t.equal(await read({ workers: 2, store }), 2, 'whichever the store is')
})

t.test('auto stays what it was at the start when the quota of processors changes', async (t) => {
  const all = await gateway(t, { workers: 'auto' })
  const { availableParallelism: real } = os
  const quota = (processors: () => number): void => {
    os.availableParallelism = processors
    syncBuiltinESMExports()
  }
  t.teardown(() => quota(real))
  quota(() => real() + 1)
  all.configure({ workers: 'auto', models: { demo: { price: { input: 2, output: 2 } } } })
  t.match(await all.gateway.reload('a test'), { ok: true })
})

t.test('a gateway has so many workers, and a change of that needs a restart', async (t) => {
  const all = await gateway(t, { workers: 2 })
  t.equal((await all.chat()).status, 200)
  t.equal((await all.admin('/admin/v1/workers')).data.length, 2)
  all.configure({ workers: 3 })
  t.match(await all.gateway.reload('a test'), {
    ok: false,
    problems: [
      { message: /^workers: this cannot change while the gateway runs: restart it, or put back what was there$/ }
    ]
  })
  t.match(all.lines.at(-1), { level: 'error', message: /the configuration was not reloaded/ })
  t.equal((await all.admin('/admin/v1/workers')).data.length, 2)
  all.configure({ workers: 2, models: { demo: { price: { input: 2, output: 2 } } } })
  t.match(await all.gateway.reload('a test'), { ok: true })
})

t.test('the command starts workers, and drains them at a signal', async (t) => {
  const all = await spawnGateway(t, { workers: 2, store: { sqlite: join(t.testdirName, 'w.db') } })
  t.equal((await all.chat()).status, 200)
  t.equal((await all.admin('/admin/v1/workers')).data.length, 2)
  all.process.kill('SIGTERM')
  t.same(await all.exited, { code: 0, signal: null })
})

t.test('a gateway of one thread tells of no workers', async (t) => {
  const one = await gateway(t)
  t.same((await one.admin('/admin/v1/workers')).data, [])
  t.notOk('missing_workers' in (await one.admin('/admin/v1/chain')))
})
