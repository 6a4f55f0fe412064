// Records that others have written for an exchange whose process was gone are told apart from its own.
import t from 'tap'
import { isRecovered, recoveredRecord } from '../../../core/store/embedded/recovery/recovery.ts'
import { record } from './embedded/sample.ts'

const abandoned = {
  requestId: 'r',
  scopes: '{"tenant:acme":"month"}',
  amount: 9n,
  model: 'gpt-5',
  priceVersion: 'p:1',
  channel: null,
  endpoint: 'chat',
  clientProtocol: 'openai-chat',
  streamed: false,
  time: 0
}

t.test('a record that others have written says so, and those of older stores are known without a mark', async (t) => {
  const made = recoveredRecord(abandoned, undefined, 0n)
  t.equal(made.recovered, true)
  t.ok(isRecovered(made))
  const { recovered: _mark, ...older } = made
  t.ok(isRecovered(older))
  t.ok(isRecovered({ ...made, duration_ms: 3, status: 200, outcome: 'completed' }), 'the mark decides')
})

t.test('a record of an exchange that failed at once is its own', async (t) => {
  const failed = record({ status: 500, outcome: 'failed', duration_ms: 0, times: { plugins_ms: 0 } })
  t.notOk(isRecovered(failed))
  t.notOk(isRecovered(record()))
})
