// What is charged by the piece: pictures by size and quality, speech by its characters, rerankings by their searches.
import t from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'

const models = {
  'dall-e-3': { price: { image: 0.04, pictures: [{ size: '256x256', quality: 'hd', image: 0.12 }, { quality: 'hd', image: 0.08 }] } },
  'tts-1': { price: { character: 15 } },
  ranker: { price: { search: 0.002 } },
  gemini: { price: { input: 1, output: 2 }, max_output_tokens: 100_000 }
}

async function open(t: Parameters<typeof gateway>[0]): Promise<LocalGateway> {
  return gateway(t, { channels: { demo: { models: Object.fromEntries(Object.keys(models).map((name) => [name, name])) } }, models })
}

async function charged(local: LocalGateway, path: string, body: object): Promise<{ status: number; cost: string; reserved: string; source: string; usage: Record<string, number> }> {
  const reply = await local.ask({ method: 'POST', path, headers: { authorization: `Bearer ${testKey}` }, body })
  const record = (await local.record(reply)) as any
  return { status: reply.status, cost: record.cost_nano, reserved: record.reserved_nano, source: record.usage_source, usage: record.usage }
}

t.test('pictures cost what was asked for, whatever the upstream reports', async (t) => {
  const local = await open(t)
  const ask = (more: object): ReturnType<typeof charged> => charged(local, '/v1/images/generations', { model: 'dall-e-3', prompt: 'A boat', size: '64x64', ...more })
  t.match(await ask({}), { status: 200, cost: '40000000', reserved: '40000000', source: 'measured', usage: { image: 1 } })
  t.match(await ask({ n: 3 }), { cost: '120000000', usage: { image: 3 } })
  t.match(await ask({ quality: 'hd' }), { cost: '80000000' })
  t.match(await ask({ quality: 'hd', size: '256x256', n: 2 }), { cost: '240000000', reserved: '240000000' })
  t.match(await ask({ n: 2, response_format: 'b64_json', size: '512x512' }), { cost: '80000000', usage: { image: 2 } }, 'counted in an answer of any size')
})

t.test('speech costs what is said, and sound is never taken for tokens', async (t) => {
  const local = await open(t)
  const said = await charged(local, '/v1/audio/speech', { model: 'tts-1', voice: 'alloy', input: 'Hé, 😀!', response_format: 'wav' })
  t.match(said, { status: 200, cost: String(6 * 15_000), source: 'measured', usage: { character: 6, output: 0 } })
  t.ok(BigInt(said.reserved) >= BigInt(said.cost))
})

t.test('a reranking costs its searches', async (t) => {
  const local = await open(t)
  const asked = { model: 'ranker', query: 'sea', documents: ['land', 'the sea'] }
  t.match(await charged(local, '/v2/rerank', asked), { status: 200, source: 'upstream' })
})

t.test("Gemini's own limit is what is held", async (t) => {
  const local = await open(t)
  const asked = { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }], generationConfig: { maxOutputTokens: 10, candidateCount: 2 } }
  const { reserved } = await charged(local, '/v1beta/models/gemini:generateContent', asked)
  const body = Buffer.byteLength(JSON.stringify(asked))
  t.equal(reserved, String(body * 1000 + 2 * 10 * 2000))
})
