// Every client library against channels of every protocol: one conversation with tools and thoughts, whole and streamed.
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { aiLibraries } from './clients/ai.ts'
import { anthropicLibraries } from './clients/anthropic.ts'
import { googleLibraries } from './clients/google.ts'
import { langchainLibraries } from './clients/langchain.ts'
import type { Library, Said } from './clients/library.ts'
import { loops } from './clients/loops.ts'
import { openaiLibraries } from './clients/openai.ts'

const libraries: readonly Library[] = [...openaiLibraries, ...anthropicLibraries, ...googleLibraries, ...aiLibraries, ...langchainLibraries]

/** Channels by what they speak. Of the models the simulator wants signatures of thoughts back, as the vendors' newest do. */
const channels = {
  chat: { protocol: 'simulator', endpoints: ['chat'], models: { 'via-chat': 'demo' } },
  responses: { protocol: 'simulator', endpoints: ['responses'], models: { 'via-responses': 'demo' } },
  anthropic: { protocol: 'simulator', simulates: 'anthropic', models: { 'via-anthropic': 'demo' } },
  gemini: { protocol: 'simulator', simulates: 'gemini', models: { 'via-gemini': 'gemini-3-pro' } }
}

const city = 'Zürich "West"\n😀'
const tell = (directive: object): string => `Tell me. [[simulator ${JSON.stringify(directive)}]]`

async function start(t: Test): Promise<LocalGateway> {
  const models = Object.fromEntries(Object.keys(channels).map((channel) => [`via-${channel}`, { price: { input: 1, cached_input: 0.1, output: 2 } }]))
  return gateway(t, { channels, models })
}

for (const { name, protocol, sees = true, sums = true, open } of libraries) {
  t.test(`${name} holds a conversation with tools by way of every channel, and sees the tokens that it is charged for`, async (t) => {
    const local = await start(t)
    const thoughts = sees ? 'Where is it?' : undefined
    for (const channel of Object.keys(channels)) {
      for (const streamed of [false, true]) {
        const way = `by way of ${channel}, ${streamed ? 'streamed' : 'whole'}`
        const conversation = open({ url: local.url, key: testKey, model: `via-${channel}` }, streamed)
        const counted: Said['usage'][] = []
        const turn = async (asking: Promise<Said>, expected: object): Promise<void> => {
          const said = await asking
          counted.push(said.usage)
          t.match(said, expected, way)
        }
        await turn(conversation.ask(tell({ call: ['get_weather', 'get_weather'], arguments: { city }, reasoning: 'Where is it?' })), {
          text: '', thoughts, calls: [{ name: 'get_weather', input: { city } }, { name: 'get_weather', input: { city } }], ended: 'calls'
        })
        await turn(conversation.answer(['4 °C', '{"sky":"blue"}']), { text: /The tool answered "[^]*blue/, thoughts, calls: [], ended: 'stop' })
        await turn(conversation.ask(tell({ call: 'get_weather', text: 'Let me look.' })), { text: 'Let me look.', calls: [{ name: 'get_weather' }], ended: 'calls' })
        await turn(conversation.answer(['']), { text: 'Let me look.', calls: [], ended: 'stop' })
        await turn(conversation.ask(tell({ text: 'Wörter: 漢字 und 😀.', cached_tokens: 7 })), { text: 'Wörter: 漢字 und 😀.', calls: [], ended: 'stop' })
        await turn(conversation.ask(tell({ tokens: 9000, chunks: 9 })), { ended: 'length' })

        const records = ((await local.admin(`/admin/v1/requests?limit=${counted.length}`)) as { data: Record<string, any>[] }).data.reverse()
        t.match(records, counted.map(() => ({ client_protocol: protocol, channel, streamed, outcome: 'completed', usage_source: 'upstream' })), way)
        t.equal(records[4]!['usage'].cached_input, 7, way)
        if (streamed && !sums) continue
        t.same(counted, records.map(({ usage: { input, cached_input: cached = 0, output } }) => ({ input: input + cached, cached, output })), `${way}: its tokens`)
      }
    }
  })
}

t.test('loops of libraries call their tool and end with the answer, by way of every channel', async (t) => {
  const local = await start(t)
  for (const { name, run } of loops) {
    for (const channel of Object.keys(channels)) {
      for (const streamed of [false, true]) {
        const asked: unknown[] = []
        const act = (input: unknown): string => (asked.push(input), 'snow, 4 °C')
        const said = await run({ url: local.url, key: testKey, model: `via-${channel}` }, streamed, tell({ call: 'get_weather', arguments: { city } }), act)
        const way = `${name} by way of ${channel}, ${streamed ? 'streamed' : 'whole'}`
        t.match(said, /The tool answered ".*snow, 4 °C/, way)
        t.same(asked, [{ city }], way)
      }
    }
  }
})
