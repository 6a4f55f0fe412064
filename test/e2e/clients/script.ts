// The one conversation that every library holds with every channel, and what must come of it.
import type { Test } from 'tap'
import { gateway } from '../../kit/gateway.ts'
import type { LocalGateway, TestGateway } from '../../kit/gateway.ts'
import { awsRegion, scriptedBedrock, withAwsKeys } from '../../kit/bedrock.ts'
import { claudeOnVertex } from '../../kit/claude-platforms.ts'
import { directed } from './converse.ts'
import type { Library, Said } from './library.ts'

/**
 * Channels by what they speak. Of the models the simulator wants signatures of thoughts back, as the vendors' newest
 * do.
 */
export const simulated = {
  chat: { protocol: 'simulator', endpoints: ['chat'], models: { 'via-chat': 'demo' } },
  responses: { protocol: 'simulator', endpoints: ['responses'], models: { 'via-responses': 'demo' } },
  anthropic: { protocol: 'simulator', simulates: 'anthropic', models: { 'via-anthropic': 'demo' } },
  gemini: { protocol: 'simulator', simulates: 'gemini', models: { 'via-gemini': 'gemini-3-pro' } }
}

/**
 * All of them. The simulator does not speak Bedrock's protocol, which a scripted upstream does; behind a scripted
 * Vertex AI it answers as Claude.
 */
export const channels: readonly string[] = [...Object.keys(simulated), 'bedrock', 'vertex']

/** A gateway with all of them, and with `more` by their names. */
export async function startAll(t: Test, more: Record<string, Record<string, unknown>> = {}): Promise<LocalGateway> {
  withAwsKeys(t)
  const { url } = await scriptedBedrock(t, directed)
  const bedrock = {
    protocol: 'bedrock',
    base_url: url,
    private: true,
    credential: { aws: { region: awsRegion } },
    models: { 'via-bedrock': 'us.a-model-v1:0' }
  }
  const platforms = { vertex: await claudeOnVertex(t), ...more }
  const claude = Object.fromEntries(
    Object.entries(platforms).map(([name, channel]) => [name, { ...channel, models: { [`via-${name}`]: 'claude-x' } }])
  )
  const models = Object.fromEntries(
    [...channels, ...Object.keys(more)].map((channel) => [
      `via-${channel}`,
      { price: { input: 1, cached_input: 0.1, output: 2 } }
    ])
  )
  return gateway(t, { channels: { ...simulated, bedrock, ...claude }, models })
}

/** One turn: a question, or the results of the calls of the turn before. */
export interface Step {
  say: { ask: string } | { answer: readonly string[] }
  expected: object
}

export const city = 'Zürich "West"\n😀'
export const tell = (directive: object): string => `Tell me. [[simulator ${JSON.stringify(directive)}]]`

const thought = 'Where is it?'

/** `sees`: the library shows thoughts. */
export function stepsOf(sees: boolean): readonly Step[] {
  const thoughts = sees ? thought : undefined
  return [
    {
      say: { ask: tell({ call: ['get_weather', 'get_weather'], arguments: { city }, reasoning: thought }) },
      expected: {
        text: '',
        thoughts,
        calls: [
          { name: 'get_weather', input: { city } },
          { name: 'get_weather', input: { city } }
        ],
        ended: 'calls'
      }
    },
    {
      say: { answer: ['4 °C', '{"sky":"blue"}'] },
      expected: { text: /The tool answered "[^]*blue/, thoughts, calls: [], ended: 'stop' }
    },
    {
      say: { ask: tell({ call: 'get_weather', text: 'Let me look.' }) },
      expected: { text: 'Let me look.', calls: [{ name: 'get_weather' }], ended: 'calls' }
    },
    { say: { answer: [''] }, expected: { text: 'Let me look.', calls: [], ended: 'stop' } },
    {
      say: { ask: tell({ text: 'Wörter: 漢字 und 😀.', cached_tokens: 7 }) },
      expected: { text: 'Wörter: 漢字 und 😀.', calls: [], ended: 'stop' }
    },
    { say: { ask: tell({ tokens: 9000, chunks: 9 }) }, expected: { ended: 'length' } }
  ]
}

/** How a conversation went. */
export interface Way extends Pick<Library, 'protocol' | 'sees' | 'sums'> {
  channel: string
  streamed: boolean
}

/** What the gateway wrote down of the newest requests, the oldest of them first. */
export async function newest(local: TestGateway, count: number): Promise<Record<string, any>[]> {
  return ((await local.admin(`/admin/v1/requests?limit=${count}`)) as { data: Record<string, any>[] }).data.reverse()
}

/** Compares what a library saw with what was to come, and with the records of its requests. */
export function checkTalk(
  t: Test,
  { protocol, channel, streamed, sees = true, sums = true }: Way,
  said: readonly Said[],
  records: readonly Record<string, any>[]
): void {
  const way = `by way of ${channel}, ${streamed ? 'streamed' : 'whole'}`
  t.match(
    said,
    stepsOf(sees).map(({ expected }) => expected),
    way
  )
  t.match(
    records,
    said.map(() => ({ client_protocol: protocol, channel, streamed, outcome: 'completed', usage_source: 'upstream' })),
    way
  )
  t.equal(records[4]!['usage'].cached_input, 7, way)
  if (streamed && !sums) return
  const counted = records.map(({ usage: { input, cached_input: cached = 0, output } }) => ({
    input: input + cached,
    cached,
    output
  }))
  t.same(
    said.map(({ usage }) => usage),
    counted,
    `${way}: its tokens`
  )
}
