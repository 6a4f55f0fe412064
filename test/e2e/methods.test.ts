// What libraries offer beside conversations: answers of a schema, chats, embeddings, pictures, speech, and whatever
// else has an endpoint.
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogle } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { jsonSchemaOutputFormat } from '@anthropic-ai/sdk/helpers/json-schema'
import { GoogleGenAI } from '@google/genai'
import { ChatAnthropic } from '@langchain/anthropic'
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai'
import {
  embed,
  embedMany,
  generateImage,
  generateText,
  jsonSchema,
  Output,
  streamText,
  experimental_generateSpeech as generateSpeech,
  experimental_transcribe as transcribe
} from 'ai'
import type { LanguageModel } from 'ai'
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod'
import t from 'tap'
import type { Test } from 'tap'
import { z } from 'zod'
import { gateway, testKey } from '../kit/gateway.ts'
import { anthropicMajors } from './clients/anthropic.ts'
import { openaiMajors } from './clients/openai.ts'

const channels = {
  openai: { protocol: 'simulator', models: { openai: 'demo', 'text-embedding-3-small': 'demo' } },
  anthropic: { protocol: 'simulator', simulates: 'anthropic', models: { anthropic: 'demo' } },
  gemini: { protocol: 'simulator', simulates: 'gemini', models: { gemini: 'gemini-3-pro' } }
}
const models = Object.fromEntries(
  Object.values(channels)
    .flatMap(({ models }) => Object.keys(models))
    .map((name) => [name, { price: { input: 1, output: 2 } }])
)

const open = async (t: Test): Promise<string> => (await gateway(t, { channels, models })).url

const schema = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const }, degrees: { type: 'integer' as const } },
  required: ['city', 'degrees'] as const,
  additionalProperties: false as const
}
const shape = z.object({ city: z.string(), degrees: z.int() })
type Weather = z.infer<typeof shape>

/** Asks for an answer of the schema, in each library's own way. */
function askers(url: string, model: string): Record<string, () => Promise<Weather | null | undefined>> {
  const question = 'How is the weather?'
  const messages = [{ role: 'user' as const, content: question }]
  const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: testKey })
  const aiModels: Record<string, LanguageModel> = {
    '@ai-sdk/openai chat': openai.chat(model),
    '@ai-sdk/openai responses': openai(model),
    '@ai-sdk/anthropic': createAnthropic({ baseURL: `${url}/v1`, apiKey: testKey })(model),
    '@ai-sdk/google': createGoogle({ baseURL: `${url}/v1beta`, apiKey: testKey })(model)
  }
  const output = Output.object({ schema: jsonSchema<Weather>(schema as object) })
  const made: Record<string, () => Promise<Weather | null | undefined>> = {}
  for (const [name, Constructor] of Object.entries(openaiMajors)) {
    const client = new Constructor({ baseURL: `${url}/v1`, apiKey: testKey, maxRetries: 0 })
    made[`${name} chat`] = async () =>
      (await client.chat.completions.parse({ model, messages, response_format: zodResponseFormat(shape, 'weather') }))
        .choices[0]!.message.parsed
    made[`${name} chat, streamed`] = async () =>
      (
        await client.chat.completions
          .stream({ model, messages, response_format: zodResponseFormat(shape, 'weather') })
          .finalChatCompletion()
      ).choices[0]!.message.parsed
    made[`${name} responses`] = async () =>
      (await client.responses.parse({ model, input: question, text: { format: zodTextFormat(shape, 'weather') } }))
        .output_parsed
  }
  for (const [name, Constructor] of Object.entries(anthropicMajors)) {
    const client = new Constructor({ baseURL: url, apiKey: testKey, maxRetries: 0 })
    made[name] = async () =>
      (
        await client.messages.parse({
          model,
          max_tokens: 500,
          messages,
          output_config: { format: jsonSchemaOutputFormat(schema) }
        })
      ).parsed_output as Weather
  }
  made['@google/genai 3'] = async () => {
    const {
      models: { generateContent }
    } = new GoogleGenAI({ apiKey: testKey, httpOptions: { baseUrl: url } })
    return JSON.parse(
      (
        await generateContent({
          model,
          contents: question,
          config: { responseMimeType: 'application/json', responseJsonSchema: schema }
        })
      ).text!
    ) as Weather
  }
  for (const [name, with_] of Object.entries(aiModels)) {
    const request = { model: with_, prompt: question, output, maxRetries: 0 }
    made[`ai 7, ${name}`] = async () => (await generateText(request)).output
    made[`ai 7, ${name}, streamed`] = async () => await streamText({ ...request, onError: () => {} }).output
  }
  made['@langchain/openai 1'] = async () =>
    await new ChatOpenAI({ model, apiKey: testKey, maxRetries: 0, configuration: { baseURL: `${url}/v1` } })
      .withStructuredOutput(shape, { name: 'weather' })
      .invoke(question)
  made['@langchain/anthropic 1'] = async () =>
    await new ChatAnthropic({ model, apiKey: testKey, anthropicApiUrl: url, maxRetries: 0 })
      .withStructuredOutput(shape, { name: 'weather' })
      .invoke(question)
  return made
}

t.test('an answer of a schema is one, whoever asks whom for it', async (t) => {
  const url = await open(t)
  for (const model of Object.keys(channels)) {
    for (const [name, ask] of Object.entries(askers(url, model))) {
      const answer: unknown = await ask().catch((error: unknown) => error)
      t.ok(shape.safeParse(answer).success, `${name} by way of ${model}`, { answer })
    }
  }
})

for (const [name, Constructor] of Object.entries(anthropicMajors)) {
  t.test(`${name}: events one by one, betas, counts and models`, async (t) => {
    const url = await open(t)
    const client = new Constructor({ baseURL: url, apiKey: testKey, maxRetries: 0 })
    const messages = [{ role: 'user' as const, content: 'Tell me. [[simulator {"text":"Hello there"}]]' }]
    for (const model of Object.keys(channels)) {
      const body = { model, max_tokens: 100, messages }
      let text = ''
      const types = new Set<string>()
      for await (const event of await client.messages.create({ ...body, stream: true })) {
        types.add(event.type)
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text
      }
      t.equal(text, 'Hello there', model)
      t.ok(
        ['message_start', 'content_block_start', 'content_block_stop', 'message_delta', 'message_stop'].every((type) =>
          types.has(type)
        ),
        model
      )
      t.match(
        await client.beta.messages.create({ ...body, betas: ['some-beta-2026-01-01'] }),
        { content: [{ text: 'Hello there' }], stop_reason: 'end_turn' },
        model
      )
      t.match(await client.beta.messages.stream(body).finalMessage(), { content: [{ text: 'Hello there' }] }, model)
    }
    const { input_tokens: counted } = await client.messages.countTokens({ model: 'anthropic', messages })
    t.equal(
      (await client.messages.create({ model: 'anthropic', max_tokens: 100, messages })).usage.input_tokens,
      counted
    )
    t.equal((await client.beta.messages.countTokens({ model: 'anthropic', messages })).input_tokens, counted)
    const listed: string[] = []
    for await (const { id } of client.models.list({ limit: 1 })) listed.push(id)
    for (const model of Object.keys(models)) t.ok(listed.includes(model), model)
    t.equal((await client.models.retrieve('gemini')).id, 'gemini')
    t.equal((await client.beta.models.retrieve('gemini')).id, 'gemini')
  })
}

t.test('@google/genai 3: chats, counts, embeddings and models', async (t) => {
  const client = new GoogleGenAI({ apiKey: testKey, httpOptions: { baseUrl: await open(t) } })
  for (const model of Object.keys(channels)) {
    const chat = client.chats.create({ model })
    t.equal(
      (await chat.sendMessage({ message: 'Tell me. [[simulator {"text":"Hello there"}]]' })).text,
      'Hello there',
      model
    )
    let text = ''
    for await (const { text: part } of await chat.sendMessageStream({
      message: 'And now? [[simulator {"text":"Good bye"}]]'
    }))
      text += part ?? ''
    t.equal(text, 'Good bye', model)
    t.ok(chat.getHistory().length >= 4, model)
    t.equal(
      (await chat.sendMessage({ message: 'Tell me. [[simulator {"text":"Still here"}]]' })).text,
      'Still here',
      model
    )
  }
  t.ok((await client.models.countTokens({ model: 'gemini', contents: 'Hello' })).totalTokens! > 0)
  t.same(
    (
      await client.models.embedContent({ model: 'gemini', contents: ['a', 'b'], config: { outputDimensionality: 3 } })
    ).embeddings!.map(({ values }) => values!.length),
    [3, 3]
  )
  const listed: unknown[] = []
  for await (const { name } of await client.models.list({ config: { pageSize: 1 } })) listed.push(name)
  for (const model of Object.keys(models)) t.ok(listed.includes(`models/${model}`), model)
  t.match(await client.models.get({ model: 'gemini' }), { name: 'models/gemini' })
})

t.test('ai 7 and @langchain/openai 1: embeddings, pictures and speech', async (t) => {
  const url = await open(t)
  const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: testKey })
  const google = createGoogle({ baseURL: `${url}/v1beta`, apiKey: testKey })
  t.ok((await embed({ model: openai.embeddingModel('openai'), value: 'one', maxRetries: 0 })).embedding.length > 0)
  t.equal(
    (await embedMany({ model: openai.embeddingModel('openai'), values: ['one', 'two'], maxRetries: 0 })).embeddings
      .length,
    2
  )
  t.equal(
    (await embedMany({ model: google.embeddingModel('gemini'), values: ['one', 'two'], maxRetries: 0 })).embeddings
      .length,
    2
  )
  t.match(
    (await generateImage({ model: openai.imageModel('openai'), prompt: 'A boat', size: '64x64', maxRetries: 0 })).image
      .mediaType,
    'image/png'
  )
  const { audio } = await generateSpeech({
    model: openai.speech('openai'),
    text: 'Hello there, sailor.',
    voice: 'alloy',
    outputFormat: 'wav',
    maxRetries: 0
  })
  t.ok((await transcribe({ model: openai.transcription('openai'), audio: audio.uint8Array, maxRetries: 0 })).text)
  const embeddings = new OpenAIEmbeddings({
    model: 'text-embedding-3-small',
    apiKey: testKey,
    maxRetries: 0,
    configuration: { baseURL: `${url}/v1` }
  })
  t.equal((await embeddings.embedDocuments(['one', 'two', 'three'])).length, 3)
  t.ok((await embeddings.embedQuery('one')).length > 0)
})
