// Answers whose media type says that they are something else: a page of a proxy is no speech, and costs nothing.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { RequestParts } from '../kit/client.ts'
import { formOf } from '../kit/form.ts'
import { gateway, testModel as model } from '../kit/gateway.ts'
import { bytes, chunk, endOfBody, head, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'

const page = '<html><body>Your captive portal wishes you a nice day.</body></html>'
const html: Step[] = [head(200, { 'content-type': 'text/html; charset=utf-8' }), chunk(page), endOfBody()]
const sound = readFileSync(join(import.meta.dirname, '../golden/sound/film.mp4'))
const price = { input: 1, output: 2, character: 15, second: 0.01, image: 0.04 }
const endpoints = ['chat', 'responses', 'embeddings', 'images', 'audio']
const messages = [{ role: 'user', content: 'Hi' }]

/** Every kind of answer: what asks for it. */
const asked: Record<string, { path: string; body: unknown }> = {
  speech: { path: '/v1/audio/speech', body: { model, voice: 'alloy', input: 'Hello' } },
  'a transcript in text': { path: '/v1/audio/transcriptions', body: { model, response_format: 'text' } },
  'a transcript in JSON': { path: '/v1/audio/transcriptions', body: { model } },
  pictures: { path: '/v1/images/generations', body: { model, prompt: 'A boat' } },
  embeddings: { path: '/v1/embeddings', body: { model, input: 'Hello' } },
  'a chat': { path: '/v1/chat/completions', body: { model, messages } },
  'a stream': { path: '/v1/chat/completions', body: { model, messages, stream: true } },
  'a response': { path: '/v1/responses', body: { model, input: 'Hello' } }
}

/** A request as its endpoint takes it. */
function requestOf({ path, body }: { path: string; body: unknown }): RequestParts {
  if (!path.endsWith('transcriptions')) return { path, body }
  const fields = Object.entries(body as Record<string, string>).map(([name, value]) => ({ name, value }))
  const form = formOf([...fields, { name: 'file', filename: 'a.mp4', type: 'video/mp4', value: sound }])
  return { method: 'POST', path, headers: { 'content-type': form.type }, body: form.body }
}

t.test('a page is no answer, whatever was asked for: another channel is tried, and nobody pays', async (t) => {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const channels = { first: { endpoints }, second: { endpoints } }
  const local = await gateway(t, { channels, models: { [model]: { price } } }, { upstreams: { first, second } })
  for (const [what, request] of Object.entries(asked)) {
    first.script(...html)
    second.script(...html)
    const reply = await local.ask(requestOf(request))
    t.equal(reply.status, 502, `${what}: ${reply.text}`)
    t.notMatch(reply.text, /captive/, what)
    const { cost_nano, attempts } = await local.record(reply)
    t.equal(cost_nano, '0', what)
    // What is dear was made, whatever came of it: it is asked for once. Channels that fail so often rest after a while.
    if (what === 'speech') t.equal(attempts.length, 1, what)
    if (what === 'a transcript in text') t.equal(attempts.length, 2, what)
  }
})

t.test('what is of the kind passes: sound by any name of it, and texts', async (t) => {
  const first = await Upstream.start(t)
  const overrides = { channels: { first: { endpoints } }, models: { [model]: { price } } }
  const local = await gateway(t, overrides, { upstreams: { first } })
  const answers = async (what: string, type: string): Promise<number> => {
    first.script(head(200, { 'content-type': type, 'content-length': '5' }), bytes('bytes'))
    return (await local.ask(requestOf(asked[what]!))).status
  }
  for (const type of ['audio/mpeg', 'Audio/L16; rate=24000', 'application/octet-stream', 'binary/octet-stream'])
    t.equal(await answers('speech', type), 200, type)
  for (const type of ['text/plain; charset=utf-8', 'text/vtt', 'application/x-subrip', 'application/octet-stream'])
    t.equal(await answers('a transcript in text', type), 200, type)
  for (const [what, type] of [
    ['speech', 'text/plain'],
    ['speech', 'application/xml'],
    ['a transcript in text', 'application/xhtml+xml']
  ] as const)
    t.equal(await answers(what, type), 502, `${what}: ${type}`)
})
