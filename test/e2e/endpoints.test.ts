// The vendors' SDKs, unchanged, on every endpoint but chat, against the running gateway with a simulator behind it.
import { CohereClient, CohereClientV2 } from 'cohere-ai'
import OpenAI from 'openai'
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'

const model = 'demo'

async function open(t: Test, overrides: Overrides = {}): Promise<{ local: LocalGateway; client: OpenAI }> {
  const local = await gateway(t, overrides)
  return { local, client: new OpenAI({ baseURL: `${local.url}/v1`, apiKey: testKey, maxRetries: 0 }) }
}

t.test('POST /v1/embeddings', async (t) => {
  const { local, client } = await open(t)
  const { data, usage } = await client.embeddings.create({ model, input: ['one', 'two'], dimensions: 5 })
  t.same(data.map(({ index, embedding }) => [index, embedding.length]), [[0, 5], [1, 5]])
  t.same(usage, { prompt_tokens: 2, total_tokens: 2 })
  const plain = await client.embeddings.create({ model, input: ['one', 'two'], dimensions: 5, encoding_format: 'float' })
  t.same(plain.data.map(({ embedding }) => embedding.map(Math.fround)), data.map(({ embedding }) => embedding))
  const tokens = await client.embeddings.create({ model, input: [[1, 2, 3], [4]] })
  t.equal(tokens.usage.prompt_tokens, 4)
  const [record] = ((await local.admin('/admin/v1/requests?limit=1')) as { data: Record<string, unknown>[] }).data
  t.match(record, { endpoint: 'embeddings', model, usage: { input: 4, output: 0 }, usage_source: 'upstream', cost_nano: '4000' })
})

t.test('POST /v1/rerank and /v2/rerank, for clients of two dialects', async (t) => {
  const { local } = await open(t)
  const options = { token: testKey, environment: local.url, maxRetries: 0 }
  const query = { model, query: 'sea', documents: ['land', 'the sea'] }
  const older = await new CohereClient(options).rerank({ ...query, returnDocuments: true })
  t.match(older, { results: [{ index: 1, document: { text: 'the sea' } }, { index: 0 }] })
  const newer = await new CohereClientV2(options).rerank({ ...query, topN: 1 })
  t.match(newer.results, [{ index: 1 }])
  const plain = await local.ask({ method: 'POST', path: '/v1/rerank', headers: { authorization: `Bearer ${testKey}` }, body: { ...query, top_n: 1 } })
  t.match(plain.json(), { object: 'list', model, results: [{ index: 1, document: undefined }], meta: { api_version: { version: '1' } } })
  t.match(await local.record(plain), { endpoint: 'rerank', outcome: 'completed', usage_source: 'upstream' })
  const refused: unknown = await new CohereClientV2(options).rerank({ ...query, model: 'none' }).catch((error: unknown) => error)
  t.match(refused, { statusCode: 404, body: { message: /does not exist/, error: { code: 'model_not_found' } } })
})

t.test('POST /v1/moderations', async (t) => {
  const { client } = await open(t)
  const { results } = await client.moderations.create({ model, input: ['violence', 'peace'] })
  t.match(results, [{ flagged: true, categories: { violence: true, hate: false } }, { flagged: false }])
})

t.test('GET /v1/models and /v1/models/{model_id}', async (t) => {
  const { client } = await open(t)
  t.match((await client.models.list()).data, [{ id: model, object: 'model' }])
  t.match(await client.models.retrieve(model), { id: model })
  await t.rejects(client.models.retrieve('org/name'), { status: 404, code: 'model_not_found' })
})

t.test('GET /openapi.json, without a key', async (t) => {
  const { local } = await open(t)
  const document = (await (await fetch(`${local.url}/openapi.json`)).json()) as { openapi: string; paths: Record<string, object> }
  t.equal(document.openapi, '3.1.0')
  for (const path of ['/v1/chat/completions', '/v1/embeddings', '/v1/models/{model}']) t.ok(document.paths[path], path)
})
