// What fails while an answer is under way: every stage hears of it, and nobody takes what has begun for undone.
import t from 'tap'
import type { Channel } from '../../../core/catalogue/catalogue.ts'
import { RequestBody } from '../../../core/bodies/body.ts'
import { Attempt } from '../../../core/contract/attempt.ts'
import type { UpstreamResponse } from '../../../core/contract/contract.ts'
import { Message } from '../../../core/contract/message.ts'
import type { OperationContext } from '../../../core/contract/served.ts'
import type { LiveExchange } from '../../../core/exchange/state/exchange.ts'
import { stagesOf } from '../../../core/exchange/attempts/staging.ts'
import { errorFromEvent } from '../../../core/exchange/failures/upstream-error.ts'
import { protocols } from '../../../core/protocols/index.ts'

const protocol = protocols['openai-chat']
const channel = { name: 'a', baseUrl: new URL('http://a.test/v1'), credential: '', headers: {} } as unknown as Channel
const attempt = new Attempt(1, channel, 'demo', { protocol, method: 'POST', path: '/' }, RequestBody.none, protocol)

t.test('a stage that was asked for hears of its end when a later part of the chain or the core fails', async (t) => {
  const places = ['stageAtUpstream', 'stageAtClient'] as const
  for (const place of places) {
    for (const late of [false, true]) {
      const ends: boolean[] = []
      const stage = { observe: () => {}, end: (complete: boolean) => void ends.push(complete) }
      const operation = {
        protocol: 'openai-chat',
        onResponse: () => stage,
        [place]: () => {
          throw new Error('no')
        }
      }
      const exchange = {
        request: { operation },
        requestedModel: 'demo',
        seenBy: () => ({}),
        took: () => 0
      } as unknown as LiveExchange
      const hook = (): Promise<void> | undefined => (late ? Promise.resolve() : undefined)
      const response = { attempt, status: 200, headers: {}, streaming: true, frames: false } as UpstreamResponse
      const ask = async (): Promise<unknown> =>
        stagesOf(exchange, [{ plugin: 'late', hook: 'onResponse', call: hook }], response, {} as OperationContext)
      await t.rejects(ask(), /no/)
      t.same(ends, [false], `${place}, ${late ? 'after a promise' : 'at once'}`)
    }
  }
})

t.test('an error that follows content does not say that nothing was made', (t) => {
  for (const [code, type] of [
    ['rate_limit_exceeded', 'rate_limit_error'],
    ['invalid_api_key', 'authentication_error']
  ]) {
    const event = Message.event(JSON.stringify({ error: { message: 'Incorrect API key provided', type, code } }))
    t.equal(errorFromEvent(attempt, event, false).details.untaken, true, `${code}, at first`)
    t.equal(errorFromEvent(attempt, event, true).details.untaken, undefined, `${code}, after content`)
  }
  t.end()
})
