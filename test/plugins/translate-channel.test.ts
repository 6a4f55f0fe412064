// What a channel says of its models, what could not be said to them, and the table of what becomes of what.
import t from 'tap'
import { ask } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import { head, reset, Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

const message = { method: 'POST', path: '/v1/messages', headers: { 'x-api-key': testKey, authorization: '' } } as const
const asked = { model: testModel, max_tokens: 9, top_k: 3, messages: [{ role: 'user', content: 'Hi' }] }

t.test('the traits of a channel decide how it is asked', async (t) => {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const local = await gateway(
    t,
    { channels: { b: { traits: { output_limit: 'max_tokens' } } } },
    { upstreams: { a: first, b: second } }
  )
  first.json({ error: { message: 'no' } }, { status: 500 })
  second.json(chatAnswer())
  t.equal((await local.ask({ ...message, body: asked })).status, 200)
  t.match(first.requests[0]!.json(), { max_completion_tokens: 9, max_tokens: undefined })
  t.match(second.requests[0]!.json(), { max_tokens: 9, max_completion_tokens: undefined })
})

t.test('a trait that there is not is refused with its place', async (t) => {
  const wrong = gateway(t, { channels: { demo: { traits: { output_limits: 'max_tokens' } } } })
  await t.rejects(wrong, /traits.*output_limits|output_limits/)
})

t.test('the record names what the channel was not told', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, {}, { upstreams: { a: upstream } })
  upstream.json(chatAnswer()).json(chatAnswer())
  const reply = await local.ask({ ...message, body: asked })
  t.equal(reply.headers['x-sluice-dropped'], 'top_k')
  t.same((await local.record(reply)).dropped, ['top_k'])
  const whole = await local.chat()
  t.notOk('dropped' in (await local.record(whole)))
})

t.test('what a channel was not told is no matter of the one that answers in its place', async (t) => {
  const [first, second, third] = [await Upstream.start(t), await Upstream.start(t), await Upstream.start(t)]
  const local = await gateway(
    t,
    { channels: { c: { protocol: 'anthropic' } } },
    { upstreams: { a: first, b: second, c: third } }
  )
  for (const upstream of [first, second]) upstream.script(head(200, { 'content-type': 'text/event-stream' }), reset())
  const event = (value: { type: string }): string => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`
  const made = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'demo',
    content: [],
    stop_reason: null,
    usage: { input_tokens: 1, output_tokens: 1 }
  }
  third.sse(
    [
      { type: 'message_start', message: made },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'Hello' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
      { type: 'message_stop' }
    ].map(event),
    { done: false }
  )
  const reply = await local.ask({ ...message, body: { ...asked, stream: true } })
  t.match([reply.status, reply.complete], [200, true])
  t.match((await local.record(reply)).attempts, [{ channel: 'a' }, { channel: 'b' }, { channel: 'c' }])
  t.equal(reply.headers['x-sluice-dropped'], undefined)
  t.ok(reply.headers['x-request-id'], 'while what is true of all attempts stays')
})

t.test('what an answer leaves to be kept for its calls is kept for its tenant alone', async (t) => {
  const upstream = await Upstream.start(t)
  const foreign = 'sk-foreign-000000000000000000000'
  const local = await gateway(
    t,
    {
      channels: { a: { protocol: 'anthropic' } },
      tenants: { acme: {}, rival: {} },
      keys: [
        { name: 'test', key: testKey, tenant: 'acme' },
        { name: 'foreign', key: foreign, tenant: 'rival' }
      ]
    },
    { upstreams: { a: upstream } }
  )
  const answer = (...content: object[]): object => ({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'demo',
    content,
    stop_reason: 'end_turn',
    usage: { input_tokens: 1, output_tokens: 1 }
  })
  const chat = async (key: string, ...more: object[]): Promise<any> => {
    const body = { model: testModel, messages: [{ role: 'user', content: 'Hi' }, ...more] }
    const reply = await local.ask({ path: '/v1/chat/completions', headers: { authorization: `Bearer ${key}` }, body })
    t.equal(reply.status, 200)
    return reply.json().choices[0].message
  }
  const call = { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }
  upstream.json(answer({ type: 'thinking', thinking: 'Hm', signature: 's' }, call))
  const said = await chat(testKey)
  for (const [key, thoughts] of [
    [foreign, 0],
    [testKey, 1]
  ] as const) {
    upstream.json(answer({ type: 'text', text: 'Hello' }))
    await chat(key, said, { role: 'tool', tool_call_id: said.tool_calls[0].id, content: '1' })
    const [, { content }] = upstream.requests.at(-1)!.json().messages
    t.equal(content.filter(({ type }: { type: string }) => type === 'thinking').length, thoughts, key)
  }
})

t.test('GET /admin/v1/capabilities', async (t) => {
  const local = await gateway(t)
  const { data, next } = await local.admin('/admin/v1/capabilities')
  t.match([next, data.length], [null, 20])
  const [pair, ...others] = (await local.admin('/admin/v1/capabilities?client=anthropic&channel=openai-chat')).data
  t.same(others, [])
  t.match(pair, {
    client: 'anthropic',
    channel: 'openai-chat',
    passed: false,
    request: { top_k: { fate: 'dropped', member: 'top_k' }, tools: { fate: 'carried' } }
  })
  t.match((await local.admin('/admin/v1/capabilities?channel=gemini&limit=2')).data, { length: 2 })
})

t.test('a reason to finish that nobody knows is told by its name, and counted by channel', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, {}, { upstreams: { a: upstream } })
  const answer = chatAnswer() as { choices: object[] }
  const odd = { ...answer, choices: answer.choices.map((choice) => ({ ...choice, finish_reason: 'brand_new' })) }
  const figures = async (): Promise<string> => (await ask(t, local.adminUrl, { path: '/metrics' })).text
  upstream.json(chatAnswer())
  t.equal((await local.ask({ ...message, body: asked })).json().stop_reason, 'end_turn')
  t.notMatch(await figures(), /^sluice_unknown_finish_reasons_total\{/m, 'a known one is not counted')
  upstream.json(odd).json(odd).json(chatAnswer())
  const [first, second, third] = [1, 2, 3].map(() => local.ask({ ...message, body: asked }))
  t.same((await Promise.all([first!, second!, third!])).map((reply) => reply.json().stop_reason).sort(), [
    'brand_new',
    'brand_new',
    'end_turn'
  ])
  t.match(await figures(), /^sluice_unknown_finish_reasons_total\{channel="a"\} 2$/m)
})

t.test('a picture of more than eight MiB reaches a chat client, whole', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, { channels: { a: { protocol: 'gemini' } } }, { upstreams: { a: upstream } })
  const data = Buffer.alloc(15 * 1024 * 1024, 'picture').toString('base64')
  const candidate = {
    index: 0,
    content: { role: 'model', parts: [{ inlineData: { mimeType: 'image/png', data } }] },
    finishReason: 'STOP'
  }
  const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 }
  const answer = { candidates: [candidate], usageMetadata, modelVersion: 'x', responseId: 'r' }
  upstream.json(answer)
  const reply = await local.chat()
  t.equal(reply.status, 200, reply.text.slice(0, 300))
  const [{ message: made }] = reply.json().choices
  t.ok(made.images[0].image_url.url === `data:image/png;base64,${data}`)
  const more = Buffer.alloc(26 * 1024 * 1024, 'picture').toString('base64')
  candidate.content.parts[0]!.inlineData.data = more
  upstream.json(answer)
  t.match((await local.chat()).json(), { error: { code: 'answer_not_inspected' } }, 'there is a bound')
})

t.test('tokens are estimated where no channel of the model can count them, and the answer says so', async (t) => {
  const upstream = await Upstream.start(t)
  const local = await gateway(t, {}, { upstreams: { a: upstream } })
  const text = 'Why is the sky blue? '.repeat(100)
  const contents = [{ role: 'user', parts: [{ text }] }]
  const path = `/v1beta/models/${testModel}:countTokens`
  const messages = [{ role: 'user', content: text }]
  for (const [counts, reply] of [
    ['input_tokens', await local.ask({ ...message, path: '/v1/messages/count_tokens', body: { ...asked, messages } })],
    ['totalTokens', await local.ask({ ...message, path, body: { contents } })],
    ['totalTokens', await local.ask({ ...message, path, body: { generateContentRequest: { contents } } })]
  ] as const) {
    t.match([reply.status, reply.headers['x-sluice-estimate']], [200, counts])
    const counted = reply.json()[counts]
    t.ok(counted >= text.length / 4 && counted <= text.length / 2, `${counted} of ${text.length} characters`)
  }
  t.equal(upstream.requests.length, 0)
  const nobody = await local.ask({ ...message, path, headers: { 'x-api-key': 'sk-nobody' }, body: { contents } })
  t.equal(nobody.status, 401)
})
