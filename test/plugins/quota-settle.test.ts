// What ends a hold of the plugin quota, however its exchange ends.
import t from 'tap'
import { GatewayError, noUsage } from '../../core/contract/contract.ts'
import { charge } from '../../core/contract/slots.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import { costOf } from '../../core/money/price.ts'
import { failedCosts, settle } from '../../plugins/quota/settle.ts'
import { TestLedger } from '../kit/ledger.ts'
import { one, priceOf, Running, attemptOf, speech, holdAt, counted } from '../kit/quota.ts'
import type { Attempted } from '../kit/quota.ts'

t.test('each end of an exchange is charged as the table of ends says', async (t) => {
  const gone = new GatewayError('client_closed', 'Gone.')
  const errors = {
    none: undefined,
    gone,
    untaken: new GatewayError('client_closed', 'Gone.', { untaken: true }),
    upstream: new GatewayError('upstream_timeout_total', 'Late.'),
    gateway: new GatewayError('internal_error', 'Broken.'),
    large: new GatewayError('answer_too_large', 'Large.')
  }
  const sources = [undefined, 'upstream', 'measured', 'partial', 'estimated'] as const
  let rows = 0
  for (const kind of ['completed', 'failed', 'aborted'] as const)
    for (const bytes of [0, 10])
      for (const source of sources)
        for (const [name, error] of Object.entries(errors))
          for (const abandoned of ['prompt', 'nothing'] as const) {
            const ledger = new TestLedger()
            const usage = source && { usage: counted, source }
            const running = new Running([attemptOf({ usage, error })])
            await settle(running as never, holdAt(ledger, { abandoned }), { kind, bytes } as never)
            const prompt = { usage: { ...noUsage, character: 4 }, source: 'estimated' }
            const wholly = source === 'upstream' || source === 'measured'
            const left = error ? name === 'gone' : kind === 'aborted'
            const due =
              kind === 'completed'
                ? (usage ?? { ...prompt, usage: { ...prompt.usage, output: Math.ceil(bytes / 3) } })
                : usage && bytes > 0
                  ? usage
                  : usage && name === 'large'
                    ? usage
                    : usage && wholly && name !== 'upstream'
                      ? usage
                      : left && abandoned === 'prompt'
                        ? (usage ?? prompt)
                        : undefined
            const [row] = ledger.rows
            const amount = due && costOf(due.usage, speech)
            const said = row!.settled
            const place = JSON.stringify({ kind, bytes, source, name, abandoned })
            t.equal(said?.amount, amount, place)
            t.equal(row!.voided, due ? undefined : true, place)
            if (due) {
              t.same({ usage: said!.usage, source: said!.source, channel: said!.channel }, { ...due, channel: 'a' })
              t.notOk('costs' in said!)
              t.same(running.find(charge), { ...due, amount, reserved: 100n, priceVersion: 'v' })
            } else t.equal(running.find(charge), undefined, place)
            rows++
          }
  t.equal(rows, 3 * 2 * 5 * 6 * 2)
})

t.test('attempts before the last are rows beside it, at what they may have cost', async (t) => {
  const refused = { status: 500 }
  const cost = priceOf({ character: 2n * one }, { version: 'cost of b' })
  const run = async (attempts: Attempted[], kind = 'completed'): Promise<TestLedger['rows'][0]> => {
    const ledger = new TestLedger()
    const numbered = attempts.map((attempt, i) => attemptOf(attempt, i + 1))
    const hold = holdAt(ledger, { costs: new Map([['b', cost]]) })
    const running = new Running(numbered)
    await settle(running as never, hold, { kind, bytes: 0 } as never)
    const before = failedCosts(running as never, hold)
    if (kind === 'completed') t.same(before ?? [], ledger.rows[0]!.costs, 'the same is told to who settles later')
    return ledger.rows[0]!
  }
  const usage: MeteredUsage = { usage: counted, source: 'partial' }
  const nothing = { usage: noUsage, amount: 0n, source: 'estimated', costPrice: undefined }
  const prompt = { usage: { ...noUsage, character: 4 }, amount: 4n, source: 'estimated', costPrice: undefined }
  const row = await run([
    { ...refused },
    { channel: 'b', status: 299 },
    { dispatched: false },
    { channel: 'b', ...refused, usage },
    { error: new GatewayError('client_closed', 'Gone.', { untaken: true }) },
    { error: new GatewayError('client_closed', 'Gone.') },
    {},
    { status: 300 },
    { channel: 'c', usage: { usage: counted, source: 'upstream' } }
  ])
  t.match(row.settled, { channel: 'c', amount: 42n })
  t.same(row.costs, [
    { attempt: 1, channel: 'a', ...nothing },
    { attempt: 2, channel: 'b', ...prompt, costPrice: 'cost of b' },
    { attempt: 4, channel: 'b', usage: counted, amount: 42n, source: 'partial', costPrice: 'cost of b' },
    { attempt: 5, channel: 'a', ...nothing },
    { attempt: 6, channel: 'a', ...prompt },
    { attempt: 7, channel: 'a', ...prompt },
    { attempt: 8, channel: 'a', ...nothing }
  ])
  const failed = await run([{ ...refused }, { channel: 'b', status: 200 }], 'failed')
  t.ok(failed.voided)
  t.same(
    failed.costs.map(({ attempt, amount }) => [attempt, amount]),
    [
      [1, 0n],
      [2, 4n]
    ],
    'all of them where nothing is charged'
  )
  t.same((await run([{ dispatched: false }], 'failed')).costs, [], 'none was sent')
})

t.test('a hold ends whatever cannot be computed, and an end that fails is no answer', async (t) => {
  const broken = (): never => {
    throw new Error('This cannot be counted.')
  }
  const usage = {
    source: 'upstream',
    get usage() {
      return broken()
    }
  } as unknown as MeteredUsage
  const end = async (kind: string, bytes: number): Promise<[TestLedger['rows'][0], Running]> => {
    const ledger = new TestLedger()
    const running = new Running([attemptOf({ usage })])
    await settle(running as never, holdAt(ledger), { kind, bytes } as never)
    return [ledger.rows[0]!, running]
  }
  for (const [kind, bytes, output] of [
    ['completed', 4, 2],
    ['completed', 3, 1],
    ['completed', 0, 0],
    ['aborted', 0, 0],
    ['failed', 1, 1],
    ['failed', 30, 2]
  ] as const) {
    const [{ settled }, { errors }] = await end(kind, bytes)
    t.match(
      settled,
      { usage: { input: 5, output }, source: 'estimated', amount: BigInt(5 + output) },
      `${kind} ${bytes}`
    )
    t.match(errors, [/could not be computed/])
  }
  const [{ voided }, { errors }] = await end('failed', 0)
  t.ok(voided)
  // Neither the charge nor the cost of the attempt.
  t.equal(errors.length, 2)

  const many = new TestLedger()
  const running = new Running([attemptOf({ usage }), attemptOf({ usage: { usage: counted, source: 'upstream' } }, 2)])
  await settle(running as never, holdAt(many), { kind: 'completed', bytes: 9 } as never)
  t.match(many.rows[0]!.settled, { amount: 42n }, 'what an attempt cost is no part of the charge')
  t.notOk('costs' in many.rows[0]!.settled!)

  for (const fails of ['now', 'later']) {
    const ledger = new TestLedger()
    const hold = holdAt(ledger)
    const lost = new Error('The disk is full.')
    const { reservation } = hold
    reservation.settle = () => {
      if (fails === 'now') throw lost
      return Promise.reject(lost)
    }
    const exchange = new Running([attemptOf({ usage: { usage: counted, source: 'upstream' } })])
    const ended = (async () => settle(exchange as never, hold, { kind: 'completed', bytes: 9 } as never))()
    await t.rejects(ended, { code: 'billing_unavailable', cause: lost, details: { retryAfterMs: 1000 } })
    t.equal(exchange.find(charge) === undefined, fails === 'now', 'what was refused was not charged')
  }
})
