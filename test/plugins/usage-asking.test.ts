// Upstreams that do not know `stream_options`: they are asked for usage once, and no client loses an answer for it.
import t from 'tap'
import type { Test } from 'tap'
import type { LocalGateway } from '../kit/gateway.ts'
import { testKey, testModel } from '../kit/gateway.ts'
import { checkChatStream } from '../kit/sse.ts'
import type { Upstream } from '../kit/upstream.ts'
import { before, billed, delta, finish, one, opening, two, whole } from '../faults/vendor.ts'

const refusals: Record<string, [status: number, body: unknown]> = {
  'in its words': [
    400,
    { error: { message: 'Unrecognized request argument supplied: stream_options', type: 'invalid_request_error' } }
  ],
  'as a parameter': [400, { error: { message: 'not supported', param: 'stream_options' } }],
  'as a place': [
    422,
    { detail: [{ type: 'extra_forbidden', loc: ['body', 'stream_options'], msg: 'Extra inputs are not permitted' }] }
  ]
}
const unusual = [opening, delta('All'), delta(' well'), finish]

/** Whether each request that the upstream got had the member. */
const asked = (vendor: Upstream): boolean[] =>
  vendor.requests.map((request) => 'stream_options' in (request.json() as object))

async function answered(t: Test, local: LocalGateway, body: Record<string, unknown> = {}): Promise<void> {
  const reply = await local.chat({ stream: true, ...body })
  t.equal(reply.status, 200)
  t.match(checkChatStream(reply.body).choices, [{ content: 'All well', finish: 'stop' }])
  t.match(await local.record(reply), { outcome: 'completed', usage_source: 'estimated' })
}

for (const [how, [status, body]] of Object.entries(refusals)) {
  t.test(`one that refuses to be asked, ${how}, is sent the request once more, and is not asked again`, async (t) => {
    const { local, first, second } = await before(t, two)
    first.json(body, { status })
    first.sse(unusual)
    await answered(t, local)
    first.sse(unusual)
    await answered(t, local)
    t.same(asked(first), [true, false, false])
    t.equal(second.requests.length, 0, 'and nobody else is bothered')
    t.equal(
      local.lines.filter(({ message }) => message.includes('does not take stream_options')).length,
      1,
      'its operator is told once'
    )
  })
}

t.test('so is one whose answers are translated', async (t) => {
  const { local, vendor } = await before(t, one)
  vendor.json(...((): [unknown, object] => [refusals['in its words']![1], { status: 400 }])())
  vendor.sse(unusual)
  const reply = await local.ask({
    path: '/v1/messages',
    headers: { 'x-api-key': testKey },
    body: { model: testModel, max_tokens: 50, stream: true, messages: [{ role: 'user', content: 'Hi' }] }
  })
  t.equal(reply.status, 200)
  t.match(reply.text, 'message_stop')
  t.same(asked(vendor), [true, false])
})

t.test('what a client sent itself is not taken away, and its refusal is its own', async (t) => {
  const { local, vendor } = await before(t, one)
  vendor.json(refusals['in its words']![1], { status: 400 })
  const reply = await local.chat({ stream: true, stream_options: { include_obfuscation: false } })
  t.equal(reply.status, 400)
  t.match(reply.json().error.message, /stream_options/)
  t.same(asked(vendor), [true])
  vendor.sse(whole)
  t.match(await local.record(await local.chat({ stream: true })), { usage: billed, usage_source: 'upstream' })
  t.same(asked(vendor), [true, true], 'nothing was learned from it')
})

t.test('one that refuses the request without it too has shown nothing about it', async (t) => {
  const { local, vendor } = await before(t, one)
  for (let i = 0; i < 2; i++) vendor.json(refusals['in its words']![1], { status: 400 })
  t.equal((await local.chat({ stream: true })).status, 400, 'tried twice, and no more')
  vendor.json({ error: { message: 'bad n', param: 'n' } }, { status: 400 })
  t.equal((await local.chat({ stream: true })).status, 400)
  vendor.sse(whole)
  t.match(await local.record(await local.chat({ stream: true })), { usage: billed })
  t.same(asked(vendor), [true, false, true, true])
})

t.test('a channel that says so is never asked, and its usage is read where it is told', async (t) => {
  const { local, vendor } = await before(t, one, { channels: { vendor: { usage: { stream_options: false } } } })
  vendor.sse(unusual)
  await answered(t, local)
  vendor.sse(whole)
  const reply = await local.chat({ stream: true })
  t.match(checkChatStream(reply.body).choices, [{ content: 'All well' }])
  t.match(await local.record(reply), { usage: billed, usage_source: 'upstream' })
  t.same(asked(vendor), [false, false])
  t.notOk(local.lines.some(({ message }) => message.includes('stream_options')))
})
