// Clients of one protocol against channels of another: the vendors' SDKs, the running gateway, and a simulator that
// speaks each protocol.
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { bytes, fin, head, Upstream } from '../kit/upstream.ts'

const families = ['openai', 'anthropic', 'gemini'] as const

async function open(t: Test): Promise<LocalGateway> {
  const channels = Object.fromEntries(
    families.map((family) => [
      family,
      { protocol: 'simulator', simulates: family, models: { [`via-${family}`]: 'demo' } }
    ])
  )
  const models = Object.fromEntries(families.map((family) => [`via-${family}`, { price: { input: 1, output: 2 } }]))
  return gateway(t, { channels, models })
}

const directive = (members: object): string => `Tell me. [[simulator ${JSON.stringify(members)}]]`
const lastRecord = async (local: LocalGateway): Promise<Record<string, any>> =>
  ((await local.admin('/admin/v1/requests?limit=1')) as { data: Record<string, any>[] }).data[0]!

t.test('openai: chat by way of every channel protocol, whole and streamed', async (t) => {
  const local = await open(t)
  const client = new OpenAI({ baseURL: `${local.url}/v1`, apiKey: testKey, maxRetries: 0 })
  for (const family of families) {
    const model = `via-${family}`
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: directive({ text: 'Wörter: 漢字 und 😀.' }) }
    ]
    const whole = await client.chat.completions.create({ model, messages, max_completion_tokens: 100 })
    t.match(
      whole,
      {
        object: 'chat.completion',
        model,
        choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: 'Wörter: 漢字 und 😀.' } }]
      },
      family
    )
    const { prompt_tokens: input, completion_tokens: output } = whole.usage!
    t.match(
      await lastRecord(local),
      {
        client_protocol: 'openai-chat',
        channel_protocol: family,
        usage: { input, output },
        usage_source: 'upstream',
        outcome: 'completed'
      },
      family
    )
    const stream = client.chat.completions.stream({
      model,
      messages,
      max_completion_tokens: 100,
      stream_options: { include_usage: true }
    })
    const final = await stream.finalChatCompletion()
    t.match(
      final.choices[0],
      { finish_reason: 'stop', message: { content: 'Wörter: 漢字 und 😀.' } },
      `${family}, streamed`
    )
    t.match(final.usage, { prompt_tokens: input, completion_tokens: output }, `${family}, streamed`)
    t.match(
      await lastRecord(local),
      { streamed: true, usage: { input, output }, usage_source: 'upstream', outcome: 'completed' },
      family
    )
  }
})

t.test('anthropic: messages by way of every channel protocol, whole and streamed', async (t) => {
  const local = await open(t)
  const client = new Anthropic({ baseURL: local.url, apiKey: testKey, maxRetries: 0 })
  for (const family of families) {
    const model = `via-${family}`
    const request = {
      model,
      max_tokens: 100,
      system: 'Be brief.',
      messages: [{ role: 'user' as const, content: directive({ text: 'Wörter: 漢字 und 😀.' }) }]
    }
    const whole = await client.messages.create(request)
    t.match(
      whole,
      {
        type: 'message',
        role: 'assistant',
        model,
        stop_reason: 'end_turn',
        content: [{ type: 'text', text: 'Wörter: 漢字 und 😀.' }]
      },
      family
    )
    t.match(
      await lastRecord(local),
      {
        endpoint: 'messages',
        client_protocol: 'anthropic',
        channel_protocol: family,
        usage: { input: whole.usage.input_tokens, output: whole.usage.output_tokens },
        outcome: 'completed'
      },
      family
    )
    const final = await client.messages.stream(request).finalMessage()
    t.match(
      final,
      {
        stop_reason: 'end_turn',
        content: [{ type: 'text', text: 'Wörter: 漢字 und 😀.' }],
        usage: { output_tokens: whole.usage.output_tokens }
      },
      `${family}, streamed`
    )
    t.match(
      await lastRecord(local),
      { streamed: true, outcome: 'completed', usage: { output: whole.usage.output_tokens } },
      family
    )
  }
  const refused: unknown = await client.messages
    .create({ model: 'none', max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }] })
    .catch((error: unknown) => error)
  t.match(refused, {
    status: 404,
    error: { type: 'error', error: { type: 'not_found_error', message: /does not exist/ } }
  })
})

t.test('anthropic: tokens are counted where the upstream can, and estimated elsewhere', async (t) => {
  const local = await open(t)
  const client = new Anthropic({ baseURL: local.url, apiKey: testKey, maxRetries: 0 })
  const counted = await client.messages.countTokens({
    model: 'via-anthropic',
    messages: [{ role: 'user', content: 'Hi' }]
  })
  t.ok(counted.input_tokens > 0)
  const messages = [{ role: 'user' as const, content: 'Why is the sky blue, and the sea at evening not?' }]
  const { data, response } = await client.messages.countTokens({ model: 'via-openai', messages }).withResponse()
  t.ok(data.input_tokens > 5 && data.input_tokens < 40, 'or estimated, which is said')
  t.equal(response.headers.get('x-sluice-estimate'), 'input_tokens')
})

t.test('a stream that breaks ends in the error of the protocol of its client', async (t) => {
  const local = await open(t)
  for (const family of families) {
    const client = new Anthropic({ baseURL: local.url, apiKey: testKey, maxRetries: 0 })
    const messages = [{ role: 'user' as const, content: directive({ tokens: 50, cut: 'reset', after_events: 8 }) }]
    const failed: unknown = await client.messages
      .stream({ model: `via-${family}`, max_tokens: 100, messages })
      .finalMessage()
      .catch((error: unknown) => error)
    t.match(failed, { error: { type: 'error', error: { message: /ended its answer|connection/ } } }, family)
    t.match(await lastRecord(local), { outcome: 'failed', error_code: 'upstream_stream_interrupted' }, family)
  }
})

t.test('google: content by way of every channel protocol, whole and streamed', async (t) => {
  const local = await open(t)
  const client = new GoogleGenAI({ apiKey: testKey, httpOptions: { baseUrl: local.url } })
  for (const family of families) {
    const request = {
      model: `via-${family}`,
      contents: directive({ text: 'Wörter: 漢字 und 😀.' }),
      config: { systemInstruction: 'Be brief.', maxOutputTokens: 100 }
    }
    const whole = await client.models.generateContent(request)
    t.equal(whole.text, 'Wörter: 漢字 und 😀.', family)
    t.match(
      await lastRecord(local),
      {
        endpoint: 'generate',
        client_protocol: 'gemini',
        channel_protocol: family,
        outcome: 'completed',
        usage_source: 'upstream'
      },
      family
    )
    t.equal(whole.usageMetadata!.candidatesTokenCount, (await lastRecord(local))['usage'].output, family)
    let text = ''
    for await (const chunk of await client.models.generateContentStream(request)) text += chunk.text ?? ''
    t.equal(text, whole.text, `${family}, streamed`)
    t.match(await lastRecord(local), { endpoint: 'generate.stream', streamed: true, outcome: 'completed' }, family)
  }
  t.ok((await client.models.countTokens({ model: 'via-gemini', contents: 'Hi' })).totalTokens! > 0)
  t.equal((await client.models.embedContent({ model: 'via-gemini', contents: ['a', 'b'] })).embeddings!.length, 2)
})

t.test('streams that are translated side by side have nothing of each other', async (t) => {
  const local = await open(t)
  const client = new Anthropic({ baseURL: local.url, apiKey: testKey, maxRetries: 0 })
  const tools = [
    { name: 'get_weather', input_schema: { type: 'object' as const, properties: { city: { type: 'string' } } } }
  ]
  await Promise.all(
    Array.from({ length: 30 }, async (_, at) => {
      const content = directive({
        text: `Marker ${at} of thirty, word by word.`,
        call: 'get_weather',
        arguments: { city: `City ${at}` },
        gap_ms: 1
      })
      const { content: blocks } = await client.messages
        .stream({
          model: `via-${families[at % families.length]}`,
          max_tokens: 200,
          tools,
          messages: [{ role: 'user', content }]
        })
        .finalMessage()
      t.match(blocks, [
        { type: 'text', text: `Marker ${at} of thirty, word by word.` },
        { type: 'tool_use', input: { city: `City ${at}` } }
      ])
      t.equal(blocks.length, 2)
    })
  )
})

t.test('betas go to channels of their protocol, and to no other', async (t) => {
  const [own, other] = [await Upstream.start(t), await Upstream.start(t)]
  const local = await gateway(
    t,
    {
      channels: { own: { protocol: 'anthropic', models: { own: 'm' } }, other: { models: { other: 'm' } } },
      models: { own: { price: { input: 1, output: 2 } }, other: { price: { input: 1, output: 2 } } }
    },
    { upstreams: { own, other } }
  )
  for (const upstream of [own, other]) upstream.script(head(400, {}), bytes('{"error":{"message":"no"}}'), fin())
  for (const model of ['own', 'other']) {
    await local.ask({
      path: '/v1/messages',
      headers: { 'anthropic-beta': 'one-2026-01-01,two-2026-01-01', 'anthropic-version': '2026-10-21' },
      body: { model, max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] }
    })
  }
  t.match(own.requests[0]!.headers, {
    'anthropic-beta': 'one-2026-01-01,two-2026-01-01',
    'anthropic-version': '2026-10-21'
  })
  t.notOk(Object.keys(other.requests[0]!.headers).some((name) => name.startsWith('anthropic')))
})
