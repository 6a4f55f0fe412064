// The openai SDK's realtime clients, for Node and for browsers, against the real gateway over TLS, which they insist
// on.
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import OpenAI from 'openai'
import { OpenAIRealtimeWebSocket } from 'openai/realtime/websocket'
import { OpenAIRealtimeWS } from 'openai/realtime/ws'
import t from 'tap'
import { makeCertificate } from '../kit/certificate.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import { settled } from '../kit/probe.ts'

const certificate = makeCertificate(t)
setDefaultCACertificates([...getCACertificates('default'), certificate.ca])

const settings = {
  listen: { tls: { cert: certificate.cert, key: certificate.key } },
  models: { demo: { price: { input: 1, output: 2, audio_input: 10, audio_output: 20 } } }
}

t.test('realtime: text, speech with its transcript, a function, and an error', async (t) => {
  const running = await gateway(t, settings)
  const baseURL = `${running.url.replace('127.0.0.1', 'localhost')}/v1`
  const client = new OpenAI({ baseURL, apiKey: testKey })
  for (const [name, connect] of [
    ['ws', () => new OpenAIRealtimeWS({ model: 'demo', options: { ca: certificate.ca } }, client)],
    ['native', () => new OpenAIRealtimeWebSocket({ model: 'demo', dangerouslyAllowBrowser: true }, client)]
  ] as const) {
    const realtime = connect()
    const errors: string[] = []
    realtime.on('error', (error) => void errors.push(String(error.error?.code ?? error.message)))
    const next = <E extends 'session.created' | 'response.done' | 'session.updated'>(type: E): Promise<any> =>
      new Promise((resolve) => void realtime.once(type, resolve as never))
    const spoken: string[] = []
    let sound = 0
    realtime.on('response.output_audio_transcript.delta', ({ delta }) => void spoken.push(delta))
    realtime.on('response.output_audio.delta', ({ delta }) => void (sound += Buffer.from(delta, 'base64').length))
    t.equal((await next('session.created')).session.model, 'demo', name)

    const updated = next('session.updated')
    realtime.send({
      type: 'session.update',
      session: {
        type: 'realtime',
        instructions: 'Be brief.',
        tools: [
          {
            type: 'function',
            name: 'get_weather',
            parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
          }
        ]
      }
    })
    t.equal((await updated).session.instructions, 'Be brief.')
    const ask = async (text: string): Promise<any> => {
      const done = next('response.done')
      realtime.send({
        type: 'conversation.item.create',
        item: { type: 'message', role: 'user', content: [{ type: 'input_text', text }] }
      })
      realtime.send({ type: 'response.create' })
      return (await done).response
    }
    const answer = await ask('Say it. [[simulator {"text": "Hello from here"}]]')
    t.equal(answer.output[0].content[0].transcript, 'Hello from here')
    t.equal(spoken.join(''), 'Hello from here')
    t.equal(sound, 3 * 2400, 'three tokens of sound')
    const called = await ask(
      'What is the weather? [[simulator {"call": "get_weather", "arguments": {"city": "Bremen"}}]]'
    )
    t.match(called.output[0], { type: 'function_call', name: 'get_weather', arguments: '{"city":"Bremen"}' })
    const failed = await ask('Fail. [[simulator {"fail": {"code": "overloaded", "message": "no"}}]]')
    t.equal(failed.status, 'failed')
    realtime.send({ type: 'conversation.item.delete', item_id: 'nothing' })
    while (errors.length === 0) await new Promise((resolve) => void realtime.once('error', resolve))
    t.same(errors, ['item_not_found'])
    realtime.close()
  }
  await settled(t, running)
  const { data } = await running.admin('/admin/v1/requests')
  t.equal(data.length, 2)
  // The one that failed after it had spoken says nothing of what it took.
  for (const record of data) t.match(record, { outcome: 'completed', usage_source: 'estimated' })
})
