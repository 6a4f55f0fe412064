// Measures the shared book: requests at a steady rate over three nodes with one tenant, each held and settled.
// node .tools/node.mjs test/core/store/cluster/money/measure.ts [requests a second] [seconds] [keys]
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../kit/cluster-money.ts'
import { scope } from '../../embedded/sample.ts'
import { charge, hold } from './oracle.ts'

const [rate = 500, seconds = 5, keys = 100] = process.argv.slice(2).map(Number)

t.test('measure', { timeout: 300_000 }, async (t) => {
  const url = await moneyBook()
  const nodes = await Promise.all(
    ['one', 'two', 'three'].map((name) => moneyNode(t, url, name, { folder: logFolder(t) }))
  )
  const budgets = [scope('tenant', 'acme', 10n ** 15n, 'month'), scope('project', 'acme/web', 10n ** 15n, 'day')]
  const callers = Array.from({ length: keys }, (_, i) => [...budgets, scope('key', `key${i}`, 10n ** 15n)])
  const [holding, settling]: [number[], number[]] = [[], []]
  const running: Promise<void>[] = []
  const one = async (i: number): Promise<void> => {
    const began = performance.now()
    const made = await hold(nodes[i % 3]!.ledger, callers[(i * 7919) % keys]!, 1000n, { time: Date.now() })
    holding.push(performance.now() - began)
    made.dispatched('openai')
    await sleep(20)
    const ends = performance.now()
    await made.settle(charge(10))
    settling.push(performance.now() - ends)
  }
  const began = performance.now()
  for (let i = 0; i < rate * seconds;) {
    for (const due = Math.min(((performance.now() - began) / 1000) * rate, rate * seconds); i < due; i++)
      running.push(one(i))
    await sleep(1)
  }
  await Promise.all(running)
  const took = (performance.now() - began) / 1000
  const shown = (times: number[]): string => {
    times.sort((a, b) => a - b)
    return [0.5, 0.9, 0.99].map((q) => times[Math.floor(q * times.length)]!.toFixed(1)).join(' / ')
  }
  t.comment(`${(running.length / took).toFixed(0)} requests/s of ${rate}`)
  t.comment(`held after p50 / p90 / p99 ms: ${shown(holding)}; settled after ${shown(settling)}`)
  t.same(await brokenIn(url), [])
})
