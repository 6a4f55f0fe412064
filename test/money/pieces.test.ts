// What is charged by the piece: pictures by size and quality, speech by its characters, sound by the second, rerankings
// by their searches.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { formOf } from '../kit/form.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'

const models = {
  'dall-e-3': {
    price: {
      image: 0.04,
      pictures: [
        { size: '256x256', quality: 'hd', image: 0.12 },
        { quality: 'hd', image: 0.08 }
      ]
    }
  },
  'tts-1': { price: { character: 15 } },
  'whisper-1': { price: { second: 0.0001 } },
  scribe: { price: { audio_input: 6, input: 2, output: 10 } },
  ranker: { price: { search: 0.002 } },
  gemini: { price: { input: 1, output: 2 }, max_output_tokens: 100_000 }
}

async function open(t: Parameters<typeof gateway>[0]): Promise<LocalGateway> {
  return gateway(t, {
    channels: { demo: { models: Object.fromEntries(Object.keys(models).map((name) => [name, name])) } },
    models
  })
}

async function charged(
  local: LocalGateway,
  path: string,
  body: object
): Promise<{ status: number; cost: string; reserved: string; source: string; usage: Record<string, number> }> {
  const reply = await local.ask({ method: 'POST', path, headers: { authorization: `Bearer ${testKey}` }, body })
  const record = (await local.record(reply)) as any
  return {
    status: reply.status,
    cost: record.cost_nano,
    reserved: record.reserved_nano,
    source: record.usage_source,
    usage: record.usage
  }
}

t.test('pictures cost what was asked for, whatever the upstream reports', async (t) => {
  const local = await open(t)
  const ask = (more: object): ReturnType<typeof charged> =>
    charged(local, '/v1/images/generations', { model: 'dall-e-3', prompt: 'A boat', size: '64x64', ...more })
  t.match(await ask({}), {
    status: 200,
    cost: '40000000',
    reserved: '40000000',
    source: 'measured',
    usage: { image: 1 }
  })
  t.match(await ask({ n: 3 }), { cost: '120000000', usage: { image: 3 } })
  t.match(await ask({ quality: 'hd' }), { cost: '80000000' })
  t.match(await ask({ quality: 'hd', size: '256x256', n: 2 }), { cost: '240000000', reserved: '240000000' })
  t.match(
    await ask({ n: 2, response_format: 'b64_json', size: '512x512' }),
    { cost: '80000000', usage: { image: 2 } },
    'counted in an answer of any size'
  )
})

t.test('speech costs what is said, and sound is never taken for tokens', async (t) => {
  const local = await open(t)
  const said = await charged(local, '/v1/audio/speech', {
    model: 'tts-1',
    voice: 'alloy',
    input: 'Hé, 😀!',
    response_format: 'wav'
  })
  t.match(said, { status: 200, cost: String(6 * 15_000), source: 'measured', usage: { character: 6, output: 0 } })
  t.ok(BigInt(said.reserved) >= BigInt(said.cost))
})

t.test(
  'sound costs its seconds: those that the upstream reports, or those that were measured as it passed',
  async (t) => {
    const local = await open(t)
    const film = readFileSync(join(import.meta.dirname, '../golden/sound/film.mp4'))
    const listen = async (
      fields: Record<string, string>,
      sound = film,
      path = '/v1/audio/transcriptions'
    ): Promise<any> => {
      const given = Object.entries({ model: 'whisper-1', ...fields }).map(([name, value]) => ({ name, value }))
      const { body, type } = formOf([...given, { name: 'file', filename: 'a.mp4', type: 'video/mp4', value: sound }])
      const reply = await local.ask({
        method: 'POST',
        path,
        headers: { authorization: `Bearer ${testKey}`, 'content-type': type },
        body
      })
      return local.record(reply)
    }
    const measured = {
      status: 200,
      usage: { second: 3, input: 0, output: 0 },
      usage_source: 'measured',
      cost_nano: '300000',
      reserved_nano: '300000'
    }
    for (const response_format of ['text', 'srt', 'vtt'])
      t.match(await listen({ response_format }), measured, response_format)
    t.match(await listen({ response_format: 'json', prompt: '[[simulator {"usage":null}]]' }), measured)
    t.match(await listen({ response_format: 'text' }, film, '/v1/audio/translations'), measured)
    t.match(await listen({ stream: 'true', prompt: '[[simulator {"usage":null}]]' }), measured)
    // The simulator takes what it does not know for 128 kbit a second, and reports that.
    t.match(
      await listen({}),
      { usage: { second: 1 }, usage_source: 'upstream', cost_nano: '100000' },
      'what is reported counts'
    )
    t.match(
      await listen({ response_format: 'verbose_json', prompt: '[[simulator {"usage":null}]]' }),
      { usage: { second: 1 }, usage_source: 'upstream' },
      'also as a duration'
    )
    const unknown = Buffer.alloc(40_000, 'x')
    t.match(
      await listen({ response_format: 'text' }, unknown),
      { usage: { second: 3 }, usage_source: 'estimated', cost_nano: '300000' },
      'by its size, and labelled'
    )
    const tokens = await listen({ model: 'scribe' })
    t.match(
      tokens,
      { usage_source: 'upstream', usage: { second: undefined } },
      'where tokens are charged, seconds are not'
    )
    t.equal((await listen({ model: 'scribe', response_format: 'text' })).usage.second, undefined)
  }
)

t.test('a reranking costs its searches', async (t) => {
  const local = await open(t)
  const asked = { model: 'ranker', query: 'sea', documents: ['land', 'the sea'] }
  const ranked = { status: 200, source: 'estimated', usage: { search: 1 }, cost: '2000000', reserved: '2000000' }
  t.match(await charged(local, '/v2/rerank', asked), ranked, 'where the upstream counts tokens')
})

t.test("Gemini's own limit is what is held", async (t) => {
  const local = await open(t)
  const asked = {
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { maxOutputTokens: 10, candidateCount: 2 }
  }
  const { reserved } = await charged(local, '/v1beta/models/gemini:generateContent', asked)
  const body = Buffer.byteLength(JSON.stringify(asked))
  t.equal(reserved, String(body * 1000 + 2 * 10 * 2000))
  for (const settings of [
    { generation_config: { max_output_tokens: 10, candidate_count: 2 } },
    { generation_config: { maxOutputTokens: 10 }, generationConfig: { candidate_count: 2, max_output_tokens: 3 } }
  ]) {
    const spelled = { contents: asked.contents, ...settings }
    t.equal(
      (await charged(local, '/v1beta/models/gemini:generateContent', spelled)).reserved,
      String(Buffer.byteLength(JSON.stringify(spelled)) * 1000 + 2 * 10 * 2000),
      JSON.stringify(settings)
    )
  }
})

t.test(
  'what has no price in the unit that is counted is charged by an estimate in tokens, and never free',
  async (t) => {
    const tokens = { input: 1, output: 2 }
    const names = ['talker', 'painter', 'writer', 'ranker', 'searcher'] as const
    const local = await gateway(t, {
      channels: { demo: { models: Object.fromEntries(names.map((name) => [name, name])) } },
      models: {
        talker: { price: tokens },
        painter: { price: { ...tokens, image_output: 40 } },
        writer: { price: tokens },
        ranker: { price: { input: 1, output: 0 } },
        searcher: { price: { search: 0.002 } }
      }
    })
    const said = { voice: 'alloy', input: 'Hello, how do you do?' }
    const speech = await charged(local, '/v1/audio/speech', { model: 'talker', ...said })
    t.match(speech, { status: 200, source: 'estimated', usage: { character: 21, input: 6, audio_output: 28 } })
    t.equal(speech.cost, String(6 * 1000 + 28 * 2000))
    t.ok(BigInt(speech.reserved) >= BigInt(speech.cost))

    const picture = { model: 'painter', prompt: 'A boat [[simulator {"usage":null}]]', size: '64x64', n: 2 }
    const painted = await charged(local, '/v1/images/generations', picture)
    t.match(painted, { status: 200, source: 'estimated', usage: { image: 2, image_output: 8320 } })
    t.ok(BigInt(painted.reserved) >= BigInt(painted.cost))

    const documents = { query: 'sea', documents: ['land', 'the sea'] }
    for (const model of ['ranker', 'searcher']) {
      const ranked = await charged(local, '/v1/rerank', { model, ...documents })
      t.equal(ranked.status, 200)
      t.ok(BigInt(ranked.cost) > 0n, `${model}: ${JSON.stringify(ranked)}`)
      t.ok(BigInt(ranked.reserved) >= BigInt(ranked.cost), model)
    }
  }
)

t.test('units are converted at the price that the request has, and a price of the call pays for no unit', async (t) => {
  const tokens = { input: 1, output: 2, image_output: 40 }
  const names = ['painter', 'talker', 'caller', 'kinds'] as const
  const local = await gateway(t, {
    channels: { demo: { models: Object.fromEntries(names.map((name) => [name, name])) } },
    models: {
      painter: { price: { ...tokens, pictures: [{ quality: 'hd', image: 0.08 }] } },
      kinds: { price: { second: 1, pictures: [{ quality: 'hd', image: 0.08 }] } },
      talker: { price: { ...tokens, request: 0.001 } },
      caller: { price: { request: 0.001 } }
    }
  })
  const picture = { prompt: 'A boat [[simulator {"usage":null}]]', size: '64x64' }
  const path = '/v1/images/generations'
  t.match(
    await charged(local, path, { model: 'painter', ...picture, quality: 'hd' }),
    { source: 'measured', usage: { image: 1, image_output: undefined }, cost: '80000000' },
    'the price of such a picture is for the picture'
  )
  t.match(await charged(local, path, { model: 'painter', ...picture }), {
    source: 'estimated',
    usage: { image: 1, image_output: 4160 },
    cost: String(4160 * 40_000)
  })
  t.match(await charged(local, path, { model: 'kinds', ...picture, quality: 'hd' }), { cost: '80000000' })

  const speech = { voice: 'alloy', input: 'Hello, how do you do?' }
  const said = await charged(local, '/v1/audio/speech', { model: 'talker', ...speech })
  t.match(said, { source: 'estimated', usage: { character: 21, input: 6, audio_output: 28, request: 1 } })
  t.equal(said.cost, String(6 * 1000 + 28 * 2000 + 1_000_000))
  t.ok(BigInt(said.reserved) >= BigInt(said.cost))
  t.match(await charged(local, '/v1/audio/speech', { model: 'caller', ...speech }), {
    source: 'measured',
    usage: { character: 21, request: 1, input: 0 },
    cost: '1000000'
  })
})

t.test('what an endpoint counts must have a price, or the model says that it is free', async (t) => {
  const local = await gateway(t, {
    channels: { demo: { models: { tokens: 'demo', pictures: 'demo', free: 'demo', calls: 'demo' } } },
    models: {
      tokens: { price: { input: 1, output: 2 } },
      pictures: { price: { image: 0.04 } },
      calls: { price: { request: 0.01 } },
      free: { price: 'free' }
    }
  })
  const video = (model: string): Promise<any> =>
    local.ask({ method: 'POST', path: '/v1/videos', body: { model, prompt: 'A boat', seconds: '4' } })
  const missing = await video('tokens')
  t.equal(missing.status, 503)
  t.match(missing.json(), { error: { code: 'price_missing' } })
  t.equal((await video('free')).status, 200)
  t.equal((await video('calls')).status, 200)
  const chat = await local.chat({ model: 'pictures' })
  t.match(chat.json(), { error: { code: 'price_missing' } })
  t.equal((await local.chat({ model: 'free' })).status, 200)
})
