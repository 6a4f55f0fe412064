// What one account of an upstream keeps: requests that refer to it go there, or are refused where nobody knows whose it
// is.
import t from 'tap'
import { gateway, testModel } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'
import { Upstream } from '../../kit/upstream.ts'

const price = { input: 1, output: 2 }
const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: 'Hi' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 }
}
const chunk = {
  candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 }
}
const ask = (local: LocalGateway, body: object): ReturnType<LocalGateway['ask']> =>
  local.ask({
    path: '/v1/messages',
    body: { model: testModel, max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }], ...body }
  })
const generate = (local: LocalGateway, body: object): ReturnType<LocalGateway['ask']> =>
  local.ask({
    path: `/v1beta/models/${testModel}:generateContent`,
    body: { contents: [{ parts: [{ text: 'Hi' }] }], ...body }
  })

t.test(
  'a container goes to the account that may have it, and not where it would be a parameter that nobody knows',
  async (t) => {
    const upstreams = { other: await Upstream.start(t), own: await Upstream.start(t) }
    const local = await gateway(t, { channels: { own: { protocol: 'anthropic' } } }, { upstreams })
    for (const container of ['container_1', { id: 'container_1', skills: [] }]) {
      upstreams.own.json(message)
      t.equal((await ask(local, { container })).status, 200)
      t.same(upstreams.own.requests.at(-1)!.json().container, container)
    }
    t.equal(upstreams.other.requests.length, 0)
  }
)

t.test(
  'where several accounts serve a model, what one of them keeps is refused by its name, and everything else is not',
  async (t) => {
    const upstreams = { one: await Upstream.start(t), two: await Upstream.start(t) }
    const local = await gateway(
      t,
      { channels: { one: { protocol: 'anthropic' }, two: { protocol: 'anthropic' } } },
      { upstreams }
    )
    for (const container of ['container_1', { id: 'container_1' }, 'c'.repeat(5000)]) {
      const refused = await ask(local, { container })
      t.match(
        [refused.status, refused.json().error],
        [400, { type: 'invalid_request_error', message: /`container` refers to what one account/ }]
      )
    }
    t.match(
      (await ask(local, { thread: { type: 'create' } })).json().error,
      { details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] } },
      'libraries do without threads then'
    )
    t.equal(upstreams.one.requests.length + upstreams.two.requests.length, 0, 'nobody is asked')
    for (const body of [{}, { container: null }, { container: { skills: [] } }]) {
      upstreams.one.json(message)
      t.equal((await ask(local, body)).status, 200)
    }
    local.configure({
      channels: { one: { protocol: 'gemini' }, two: { protocol: 'gemini' } },
      models: { [testModel]: { price } }
    })
    await local.gateway.reload('test')
    for (const body of [{ cachedContent: 'cachedContents/a' }, { cached_content: 'cachedContents/a' }])
      t.match((await generate(local, body)).json().error, { code: 400, message: /ached_?[cC]ontent` refers to/ })
    upstreams.one.json(chunk)
    t.equal((await generate(local, {})).status, 200)
  }
)

t.test('two channels of one account are one account', async (t) => {
  const one = await Upstream.start(t)
  const again = {
    protocol: 'anthropic',
    base_url: one.url.href,
    credential: 'upstream-secret-of-one',
    private: true,
    models: { [testModel]: 'm' }
  }
  const local = await gateway(t, { channels: { one: { protocol: 'anthropic' }, again } }, { upstreams: { one } })
  one.json(message)
  t.equal((await ask(local, { container: 'container_1' })).status, 200)
})
