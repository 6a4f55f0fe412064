// What the upstreams of these tests say when they are well, and a gateway before them.
import type { Test } from 'tap'
import { gateway, testModel } from '../kit/gateway.ts'
import type { LocalGateway, Overrides } from '../kit/gateway.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { events, head, until, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'

export const base = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: testModel }
export const delta = (content: string): unknown => ({
  ...base,
  choices: [{ index: 0, delta: { content }, finish_reason: null }]
})
export const opening = {
  ...base,
  choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }]
}
export const finish = { ...base, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
export const usage = { ...base, choices: [], usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } }
export const done = 'data: [DONE]\n\n'
export const whole = [opening, delta('All'), delta(' well'), finish, usage]
export const completion = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: testModel,
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'All well', refusal: null },
      finish_reason: 'stop',
      logprobs: null
    }
  ],
  usage: usage.usage
}
export const sse = head(200, { 'content-type': 'text/event-stream' })
export const billed = { input: 11, output: 7 }

/** A gateway before one scripted upstream, or before a first and a second. */
export async function before<Names extends string>(
  t: Test,
  names: readonly Names[],
  overrides: Overrides = {}
): Promise<{ local: LocalGateway } & Record<Names, Upstream>> {
  const upstreams = Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await Upstream.start(t)] as const))
  ) as Record<Names, Upstream>
  const local = await gateway(t, overrides, { upstreams })
  return { local, ...upstreams }
}

export const one = ['vendor'] as const
export const two = ['first', 'second'] as const

/** A stream that the client has begun to see when the upstream goes on with these steps. */
export async function afterContent(
  local: LocalGateway,
  vendor: Upstream,
  steps: readonly Step[],
  body: Record<string, unknown> = {}
): Promise<ReceivedReply> {
  let go!: () => void
  const seen = new Promise<void>((resolve) => (go = resolve))
  vendor.script(sse, events([opening, delta('So'), delta(' far')]), until(seen), ...steps)
  const client = await local.openChat({ stream: true, ...body })
  await client.body(' far')
  go()
  return client.reply()
}

/**
 * A chain that leaves no channel out and tries as often as it may, each channel once, for tests of what single requests
 * see.
 */
export const patient = {
  chain: [
    { auth: {} },
    { quota: {} },
    { ratelimit: {} },
    { route: { repeats: 0, eject_after: 100_000, retry_per_second: 1000 } },
    { 'protocol-translate': {} },
    { 'usage-meter': {} },
    { log: { sink: 'none' } }
  ]
}
