// Responses that the gateway keeps: the vendor's SDK goes on with conversations by way of channels that remember
// nothing.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, isStepCount, jsonSchema, tool } from 'ai'
import OpenAI from 'openai'
import t from 'tap'
import type { Test } from 'tap'
import { completion } from '../faults/vendor.ts'
import { openaiMajors } from './clients/openai.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { chunk, endOfBody, head, Upstream } from '../kit/upstream.ts'

const channels = {
  responses: { protocol: 'simulator', endpoints: ['responses'] },
  chat: { protocol: 'simulator', endpoints: ['chat'] },
  anthropic: { protocol: 'simulator', simulates: 'anthropic' },
  gemini: { protocol: 'simulator', simulates: 'gemini' }
}
const kinds = Object.keys(channels)
const secret = 'a secret of the operator that nobody else knows'
const foreign = 'sk-test-foreign-0000000000000'

async function open(t: Test, more: object = {}): Promise<{ local: LocalGateway; client: OpenAI; folder: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const local = await gateway(
    t,
    {
      channels: Object.fromEntries(
        Object.entries(channels).map(([kind, channel]) => [kind, { ...channel, models: { [`via-${kind}`]: 'demo' } }])
      ),
      models: Object.fromEntries(
        kinds.map((kind) => [`via-${kind}`, { price: { input: 1, output: 2 }, state: 'gateway' }])
      ),
      tenants: { acme: {}, other: {} },
      keys: [
        { name: 'test', key: testKey, tenant: 'acme' },
        { name: 'foreign', key: foreign, tenant: 'other' }
      ],
      state: { key: '${STATE_KEY}', ...more },
      store: { sqlite: join(folder, 'sluice.db') }
    },
    { env: { STATE_KEY: secret } }
  )
  return { local, folder, client: new OpenAI({ baseURL: `${local.url}/v1`, apiKey: testKey, maxRetries: 0 }) }
}

const directive = (members: object): string => `Tell me. [[simulator ${JSON.stringify(members)}]]`
const refusal = (call: Promise<unknown>): Promise<any> =>
  call.then(
    () => 'no error',
    (error: unknown) => error
  )
const lastRecord = async (local: LocalGateway): Promise<Record<string, any>> =>
  ((await local.admin('/admin/v1/requests?limit=1')) as { data: Record<string, any>[] }).data[0]!

t.test(
  'a conversation goes on by way of every channel, whole and streamed, and its upstream is told all of it',
  async (t) => {
    const { local, client } = await open(t)
    for (const kind of kinds) {
      const model = `via-${kind}`
      const first = await client.responses.create({
        model,
        input: directive({ text: 'A dozen words that count as input later on, in each of the turns.' }),
        max_output_tokens: 100
      })
      t.match(first, { store: true, previous_response_id: null }, kind)
      const second = await client.responses
        .stream({ model, input: directive({ text: 'Then.' }), previous_response_id: first.id, max_output_tokens: 100 })
        .finalResponse()
      t.match(second, { status: 'completed', store: true, previous_response_id: first.id }, kind)
      t.ok(second.usage!.input_tokens > first.usage!.input_tokens + 10, `${kind}: the model saw the first turn`)
      t.match(await lastRecord(local), { channel: kind, usage: { input: second.usage!.input_tokens } })
      const third = await client.responses.create({
        model,
        input: [{ role: 'user', content: 'Go on.' }],
        previous_response_id: second.id,
        store: false
      })
      t.ok(third.usage!.input_tokens > second.usage!.input_tokens, `${kind}: and the second`)
      t.match(
        await refusal(client.responses.retrieve(third.id)),
        { status: 404 },
        `${kind}: what is not to be stored is not`
      )

      t.strictSame((await client.responses.retrieve(first.id)).output, first.output, kind)
      t.match(second.output, (await client.responses.retrieve(second.id)).output, `${kind}, streamed`)
      t.match(await lastRecord(local), { endpoint: 'responses.retrieve', attempts: [], cost_nano: '0' }, kind)
      const items = await client.responses.inputItems.list(second.id)
      t.match(items.data, [{ type: 'message', role: 'user', content: /Tell me/, id: /^msg_/ }], kind)
      t.equal(items.data.length, 1)
      t.match(await refusal(client.responses.cancel(first.id)), { status: 400 }, kind)
      await client.responses.delete(first.id)
      t.match(await refusal(client.responses.retrieve(first.id)), { status: 404, code: 'response_not_found' }, kind)
      t.equal(
        (await client.responses.create({ model, input: 'More.', previous_response_id: second.id })).status,
        'completed',
        `${kind}: what follows stands by itself`
      )
    }
  }
)

t.test('tools are called and answered over two turns', async (t) => {
  const { client } = await open(t)
  const tools: OpenAI.Responses.Tool[] = [
    {
      type: 'function',
      name: 'get_weather',
      strict: false,
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    }
  ]
  for (const kind of kinds) {
    const model = `via-${kind}`
    const first = await client.responses.create({
      model,
      tools,
      input: directive({ call: ['get_weather'], arguments: { city: 'Zürich' }, reasoning: 'Which city?' }),
      reasoning: { effort: 'low', summary: 'auto' },
      max_output_tokens: 4000
    })
    const call = first.output.find((item) => item.type === 'function_call')!
    t.match(call, { name: 'get_weather' }, kind)
    const second = await client.responses.create({
      model,
      tools,
      previous_response_id: first.id,
      input: [{ type: 'function_call_output', call_id: call.call_id, output: 'Sunny.' }],
      max_output_tokens: 4000
    })
    t.match(second, { status: 'completed', output_text: /./ }, kind)
  }
})

t.test("it is its owner's alone, cannot be read in the files, and is bounded", async (t) => {
  const { local, client, folder } = await open(t, { largest: '1KiB' })
  const model = 'via-chat'
  const first = await client.responses.create({ model, input: 'A canary: chartreuse-7311' })
  const other = new OpenAI({ baseURL: `${local.url}/v1`, apiKey: foreign, maxRetries: 0 })
  const unknown = await refusal(other.responses.retrieve('resp_unknown'))
  for (const call of [
    () => other.responses.retrieve(first.id),
    () => other.responses.delete(first.id),
    () => other.responses.inputItems.list(first.id),
    () => other.responses.cancel(first.id),
    () => other.responses.create({ model: 'via-responses', input: 'x', previous_response_id: first.id })
  ]) {
    t.strictSame((await refusal(call())).error, unknown.error)
  }
  t.strictSame(
    (await refusal(other.responses.create({ model, input: 'x', previous_response_id: first.id }))).error,
    unknown.error
  )
  t.equal((await client.responses.retrieve(first.id)).id, first.id, 'and nobody else deletes it')
  const results = join(folder, 'sluice.db.results')
  t.ok(readdirSync(results).length > 0)
  for (const file of readdirSync(results)) t.notOk(readFileSync(join(results, file)).includes('chartreuse'))
  t.match(await refusal(client.responses.create({ model, input: 'x'.repeat(1000), previous_response_id: first.id })), {
    status: 413,
    code: 'request_too_large'
  })
  await local.gateway.close()
  for (const [key, status] of [
    [secret, 200],
    ['another secret, which is as long as the first one', 404]
  ] as const) {
    const again = await gateway(t, readFileSync(local.file, 'utf8'), { env: { STATE_KEY: key } })
    const reply = await again.ask({ method: 'GET', path: `/v1/responses/${first.id}` })
    t.equal(reply.status, status, 'it outlives the process, and is lost with its key')
    await again.gateway.close()
  }
})

t.test('items are referred to by their ids, in the conversation and across it', async (t) => {
  const { local, client } = await open(t)
  for (const kind of kinds) {
    const model = `via-${kind}`
    const first = await client.responses.create({
      model,
      input: directive({ text: 'Chartreuse it is, and it stays that for the rest of this conversation.' })
    })
    const [question] = (await client.responses.inputItems.list(first.id)).data
    const reference = (id: string): OpenAI.Responses.ResponseInputItem => ({ type: 'item_reference', id })
    const refer = (...ids: string[]): OpenAI.Responses.ResponseInput => [
      ...ids.map(reference),
      { role: 'user', content: 'Go on.' }
    ]
    const alone = await client.responses.create({ model, input: 'Go on.' })
    const second = await client.responses.create({ model, input: refer(question!.id!, first.output.at(-1)!.id!) })
    t.ok(second.usage!.input_tokens > alone.usage!.input_tokens + 20, `${kind}: the model saw both items`)
    t.match(await lastRecord(local), { channel: kind })
    const listed = await client.responses.inputItems.list(second.id, { order: 'asc' })
    t.match(
      listed.data,
      [
        { role: 'user', content: /Chartreuse/ },
        { role: 'assistant', content: [{ text: /Chartreuse/ }] },
        { role: 'user' }
      ],
      `${kind}: what was referred to is kept as it was said`
    )
    const third = await client.responses.create({
      model,
      input: refer(first.output.at(-1)!.id!),
      previous_response_id: second.id
    })
    t.equal(third.status, 'completed', kind)
    const other = new OpenAI({ baseURL: `${local.url}/v1`, apiKey: foreign, maxRetries: 0 })
    const unknown = await refusal(client.responses.create({ model, input: refer('msg_unknown') }))
    t.match(unknown, { status: 404, code: 'response_not_found' }, kind)
    for (const id of [question!.id!, first.output.at(-1)!.id!])
      t.strictSame(
        (await refusal(other.responses.create({ model, input: refer(id) }))).error,
        unknown.error,
        `${kind}: another's is what does not exist`
      )
    await client.responses.delete(first.id)
    t.strictSame(
      (await refusal(client.responses.create({ model, input: refer(first.output.at(-1)!.id!) }))).error,
      unknown.error,
      `${kind}: it goes with its response`
    )
  }
})

t.test('an upstream that gives one id twice mixes nothing up', async (t) => {
  const vendor = await Upstream.start(t)
  const local = await gateway(
    t,
    { models: { [testModel]: { state: 'gateway' } }, state: { key: secret } },
    { upstreams: { vendor } }
  )
  const client = new OpenAI({ baseURL: `${local.url}/v1`, apiKey: testKey, maxRetries: 0 })
  const texts = ['one', 'two']
  const answers: OpenAI.Responses.Response[] = []
  for (const content of texts) {
    vendor.script(
      head(200, { 'content-type': 'application/json' }),
      chunk(
        JSON.stringify({
          ...completion,
          choices: [{ ...completion.choices[0], message: { role: 'assistant', content } }]
        })
      ),
      endOfBody()
    )
    answers.push(await client.responses.create({ model: testModel, input: 'Which?' }))
  }
  t.not(answers[0]!.id, answers[1]!.id)
  for (const [i, { id }] of answers.entries()) t.equal((await client.responses.retrieve(id)).output_text, texts[i])
})

t.test('a budget holds what the conversation takes in beside the request', async (t) => {
  const { local, client } = await open(t)
  const model = 'via-chat'
  const first = await client.responses.create({
    model,
    input: `${directive({ text: 'Yes.' })} ${'word '.repeat(400)}`,
    max_output_tokens: 10
  })
  await client.responses.create({ model, input: 'Go on.', previous_response_id: first.id, max_output_tokens: 10 })
  const { reserved_nano, usage } = await lastRecord(local)
  t.ok(BigInt(reserved_nano) >= 2000n * 1000n, `a token a byte is held: ${reserved_nano}`)
  t.ok(usage.input > 400)
})

t.test('what was kept longest ago makes room: of its tenant, or of whoever keeps most', async (t) => {
  const { local, client } = await open(t, { largest: '64KiB', of_tenant: '1MiB', size: '1MiB' })
  const other = new OpenAI({ baseURL: `${local.url}/v1`, apiKey: foreign, maxRetries: 0 })
  const model = 'via-chat'
  const [small] = [await other.responses.create({ model, input: 'A small one.' })]
  const made: string[] = []
  for (let i = 0; i < 24; i++) made.push((await client.responses.create({ model, input: 'x'.repeat(60_000) })).id)
  const there = async (of: OpenAI, id: string): Promise<boolean> =>
    of.responses.retrieve(id).then(
      () => true,
      () => false
    )
  t.notOk(await there(client, made[0]!), 'the first one has gone')
  t.ok(await there(client, made.at(-1)!), 'the last one is there')
  t.ok(await there(other, small.id), 'and no other tenant has lost anything')
  const kept = async (of: OpenAI): Promise<number> =>
    (await Promise.all(made.map((id) => there(of, id)))).filter(Boolean).length
  const before = await kept(client)
  t.ok(before >= 7 && before <= 17, `${before} are kept`)
  await local.gateway.close()
  const again = await gateway(t, readFileSync(local.file, 'utf8'), { env: { STATE_KEY: secret } })
  const later = new OpenAI({ baseURL: `${again.url}/v1`, apiKey: testKey, maxRetries: 0 })
  for (let i = 0; i < 12; i++) made.push((await later.responses.create({ model, input: 'x'.repeat(60_000) })).id)
  const after = await kept(later)
  t.ok(after >= 7 && after <= 17, `${after} are kept after a restart, which counts them all`)
})

t.test('the AI SDK refers to what it was told before, where it may', async (t) => {
  const { local } = await open(t)
  const act = tool({
    description: 'The weather of a city.',
    inputSchema: jsonSchema<{ city: string }>({
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city']
    }),
    execute: ({ city }) => `Sunny in ${city}.`
  })
  for (const kind of kinds) {
    const bodies: { input: { type?: string }[] }[] = []
    const provider = createOpenAI({
      baseURL: `${local.url}/v1`,
      apiKey: testKey,
      fetch: (url, init) => {
        bodies.push(JSON.parse(String(init!.body)))
        return fetch(url, init)
      }
    })
    const { text } = await generateText({
      model: provider(`via-${kind}`),
      prompt: directive({ call: 'get_weather', arguments: { city: 'Bremen' }, reasoning: 'Which city?' }),
      tools: { get_weather: act },
      stopWhen: isStepCount(5),
      maxRetries: 0,
      maxOutputTokens: 4000,
      providerOptions: { openai: { forceReasoning: true, reasoningEffort: 'low', reasoningSummary: 'auto' } }
    })
    t.match(text, /The tool answered/, kind)
    t.ok(
      bodies.at(-1)!.input.some(({ type }) => type === 'item_reference'),
      `${kind}: it referred to items`
    )
  }
})

t.test('a stream that is called off ends as the SDKs expect: with the response, and no error', async (t) => {
  const { local, client } = await open(t)
  for (const kind of kinds) {
    for (const OpenAIClient of Object.values(openaiMajors)) {
      const stream = new OpenAIClient({ baseURL: `${local.url}/v1`, apiKey: testKey, maxRetries: 0 }).responses.stream({
        model: `via-${kind}`,
        input: directive({ tokens: 2000, gap_ms: 10 }),
        background: true
      })
      let id = ''
      for await (const event of stream) {
        if (event.type === 'response.created') id = event.response.id
        else if (event.type === 'response.output_text.delta' && id !== '') {
          await client.responses.cancel(id)
          id = ''
        }
      }
      const final = await stream.finalResponse()
      t.match(final, { status: 'cancelled', output: [] }, kind)
      t.match(await client.responses.retrieve(final.id), { status: 'cancelled' })
    }
  }
})
