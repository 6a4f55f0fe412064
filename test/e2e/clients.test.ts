// Every client library against channels of every protocol: one conversation with tools and thoughts, whole and
// streamed; and their loops.
import t from 'tap'
import { testKey } from '../kit/gateway.ts'
import { aiLibraries } from './clients/ai.ts'
import { anthropicLibraries } from './clients/anthropic.ts'
import { googleLibraries } from './clients/google.ts'
import { langchainLibraries } from './clients/langchain.ts'
import type { Library, Said } from './clients/library.ts'
import { loops } from './clients/loops.ts'
import { openaiLibraries } from './clients/openai.ts'
import { channels, checkTalk, city, newest, startAll, stepsOf, tell } from './clients/script.ts'

const libraries: readonly Library[] = [
  ...openaiLibraries,
  ...anthropicLibraries,
  ...googleLibraries,
  ...aiLibraries,
  ...langchainLibraries
]

for (const { name, protocol, sees = true, sums = true, open } of libraries) {
  t.test(
    `${name} holds a conversation with tools by way of every channel, and sees the tokens that it is charged for`,
    async (t) => {
      const local = await startAll(t)
      for (const channel of channels) {
        for (const streamed of [false, true]) {
          const conversation = open({ url: local.url, key: testKey, model: `via-${channel}` }, streamed)
          const said: Said[] = []
          for (const { say } of stepsOf(sees))
            said.push(await ('ask' in say ? conversation.ask(say.ask) : conversation.answer(say.answer)))
          checkTalk(t, { protocol, channel, streamed, sees, sums }, said, await newest(local, said.length))
        }
      }
    }
  )
}

t.test('loops of libraries call their tool and end with the answer, by way of every channel', async (t) => {
  const local = await startAll(t)
  for (const { name, run } of loops) {
    for (const channel of channels) {
      for (const streamed of [false, true]) {
        const asked: unknown[] = []
        const act = (input: unknown): string => (asked.push(input), 'snow, 4 °C')
        const said = await run(
          { url: local.url, key: testKey, model: `via-${channel}` },
          streamed,
          tell({ call: 'get_weather', arguments: { city } }),
          act
        )
        const way = `${name} by way of ${channel}, ${streamed ? 'streamed' : 'whole'}`
        t.match(said, /The tool answered ".*snow, 4 °C/, way)
        t.same(asked, [{ city }], way)
      }
    }
  }
})
