// A prompt that an upstream blocks with a whole answer: another model stands in where the file says so, and where none
// is left the block is the answer.
import t from 'tap'
import type { Test } from 'tap'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { settled } from '../kit/probe.ts'
import { tokenServer } from '../kit/token-server.ts'
import type { Answer, Asked, TokenServer } from '../kit/token-server.ts'

const block = {
  promptFeedback: { blockReason: 'PROHIBITED_CONTENT' },
  usageMetadata: { promptTokenCount: 4, totalTokenCount: 4 },
  modelVersion: 'gemini-x'
}
const well = {
  candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'Hello' }] }, finishReason: 'STOP' }],
  usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 2, totalTokenCount: 6 }
}

function answering(answer: object): (asked: Asked) => Answer {
  return ({ target }) =>
    target.includes('streamGenerateContent')
      ? { headers: { 'content-type': 'text/event-stream' }, body: `data: ${JSON.stringify(answer)}\n\n` }
      : { body: answer }
}

async function bench(t: Test): Promise<{ local: LocalGateway; a: TokenServer; b: TokenServer }> {
  const [a, b] = [await tokenServer(t, answering(block)), await tokenServer(t, answering(well))]
  const channel = (name: string, { url }: TokenServer): object => ({
    protocol: 'gemini',
    base_url: `${url}/v1beta`,
    private: true,
    credential: `secret-of-${name}`,
    models: { [name]: name }
  })
  const local = await gateway(t, {
    channels: { a: channel('a', a), b: channel('b', b) },
    models: {
      a: { price: { input: 1, output: 1 } },
      b: { price: { input: 10, output: 10 } },
      any: { fallback: ['a', 'b'], fallback_on: ['failure', 'filter'] },
      careful: { fallback: ['a', 'b'] }
    }
  })
  return { local, a, b }
}

/** What a client of a protocol gets, whole or streamed. */
const clients: Record<
  string,
  (local: LocalGateway, model: string, stream: boolean) => ReturnType<LocalGateway['chat']>
> = {
  chat: (local, model, stream) => local.chat({ model, stream }),
  gemini: (local, model, stream) =>
    local.ask({
      path: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      body: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] }
    })
}

for (const [client, send] of Object.entries(clients))
  for (const stream of [false, true])
    t.test(`a blocked prompt goes to the next model: ${client}, ${stream ? 'streamed' : 'whole'}`, async (t) => {
      const { local, a, b } = await bench(t)
      const reply = await send(local, 'any', stream)
      t.equal(reply.status, 200)
      t.match(reply.text, /Hello/)
      t.notMatch(reply.text, /PROHIBITED/)
      t.equal(reply.headers['x-sluice-model'], 'b')
      const record = await local.record(reply)
      t.match(record, { model: 'b', requested_model: 'any', cost_nano: String(6 * 10_000) })
      t.match(record.attempts, [
        { channel: 'a', upstream_error: { code: 'content_filter' } },
        { channel: 'b', status: 200 }
      ])
      t.same([a.asked.length, b.asked.length], [1, 1])

      const blocked = await send(local, 'careful', stream)
      t.equal(blocked.status, 200, 'an answer is an answer where the file does not say otherwise')
      t.notMatch(blocked.text, /Hello/)
      t.equal(b.asked.length, 1)

      b.answering = answering(block)
      const last = await send(local, 'any', stream)
      t.equal(last.status, 200, 'so is the block of the last one')
      t.match(last.text, client === 'gemini' ? /PROHIBITED_CONTENT/ : /content_filter/)
      t.equal(last.headers['x-sluice-model'], 'b')
      await settled(t, local)
    })

t.test('what was answered before a block is an answer', async (t) => {
  const { local, a } = await bench(t)
  a.answering = answering({ ...well, promptFeedback: { blockReason: 'OTHER' } })
  const reply = await clients['gemini']!(local, 'any', false)
  t.match(reply.text, /Hello/)
  t.equal((await local.record(reply)).model, 'a')
})
