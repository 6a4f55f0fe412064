// The realtime session of @openai/agents: it calls its tool, speaks, and is charged by the response.
import { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket, tool } from '@openai/agents/realtime'
import t from 'tap'
import { z } from 'zod'
import { gateway, testKey } from '../kit/gateway.ts'
import { settled } from '../kit/probe.ts'

const price = { input: 1, output: 2, audio_input: 10, audio_output: 20 }

t.test('an agent speaks, calls its tool, and says what came of it', async (t) => {
  const running = await gateway(t, { models: { demo: { price } } })
  const secret = await running.ask({
    path: '/v1/realtime/client_secrets',
    body: { session: { type: 'realtime', model: 'demo' } }
  })
  for (const [name, apiKey] of [
    ['an ordinary key', testKey],
    ['a client secret', secret.json().value as string]
  ] as const) {
    const asked: string[] = []
    const weather = tool({
      name: 'get_weather',
      description: 'The weather of a city.',
      parameters: z.object({ city: z.string() }),
      execute: ({ city }) => {
        asked.push(city)
        return `Sunny in ${city}.`
      }
    })
    const agent = new RealtimeAgent({ name: 'Weather', instructions: 'Be brief.', tools: [weather] })
    const transport = new OpenAIRealtimeWebSocket({
      url: `${running.url.replace('http', 'ws')}/v1/realtime?model=demo`
    })
    const session = new RealtimeSession(agent, { transport, model: 'demo' })
    const errors: unknown[] = []
    let sound = 0
    let ends = 0
    let wake: (() => void) | undefined
    session.on('error', (error) => void errors.push(error))
    session.on('audio', ({ data }) => void (sound += data.byteLength))
    session.on('agent_end', () => {
      ends++
      wake?.()
    })
    await session.connect({ apiKey })
    session.sendMessage('What is the weather? [[simulator {"call": "get_weather", "arguments": {"city": "Bremen"}}]]')
    while (asked.length === 0 || ends === 0)
      await new Promise<void>((resolve) => {
        wake = resolve
        setTimeout(resolve, 20)
      })
    t.same(asked, ['Bremen'], name)
    while (sound === 0) await new Promise((resolve) => setTimeout(resolve, 10))
    t.match(
      session.history.map(({ type }) => type),
      ['message', 'function_call', 'message'],
      name
    )
    t.ok(session.usage.totalTokens > 0, `${name}: what was used is known`)
    t.same(errors, [], name)
    session.close()
  }
  await settled(t, running)
  const { data } = await running.admin('/admin/v1/requests?limit=2')
  for (const record of data) t.match(record, { endpoint: 'realtime', outcome: 'completed', usage_source: 'upstream' })
})
