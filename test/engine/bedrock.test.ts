// A channel of Bedrock by Converse, from a client's request to its answer: signatures, paths, streams, failures.
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { awsRegion, scriptedBedrock, withAwsKeys } from '../kit/bedrock.ts'
import type { BedrockAnswer, ScriptedBedrock } from '../kit/bedrock.ts'
import { exceptionFrame, frame } from '../kit/event-stream.ts'
import { converseAnswer, converseBytes, converseEvents } from '../kit/converse.ts'
import type { ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import { chatAnswer } from '../kit/workbench.ts'
import { Upstream } from '../kit/upstream.ts'

type Json = Record<string, any>

const arn = 'arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2'

const answer: ModelAnswer = {
  id: '',
  candidates: [{ parts: [{ type: 'text', text: 'Wörter: 漢字 und 😀.' }], finish: { reason: 'stop' } }],
  usage: { input: 9, cached_input: 3, cache_write: 0, output: 6, reasoning: 0 }
}
const events = converseEvents(answer)
const said = 'Wörter: 漢字 und 😀.'

/** A gateway with a channel to a scripted Bedrock, and a spare one to an ordinary upstream behind it. */
async function open(
  t: Test,
  answering: () => BedrockAnswer
): Promise<{ local: LocalGateway; bedrock: ScriptedBedrock; spare: Upstream }> {
  withAwsKeys(t)
  const bedrock = await scriptedBedrock(t, answering)
  const spare = await Upstream.start(t)
  const credential = { aws: { region: awsRegion } }
  const local = await gateway(
    t,
    {
      channels: {
        up: {
          protocol: 'bedrock',
          base_url: bedrock.url,
          private: true,
          credential,
          models: { alone: arn, both: 'us.a-v1:0' }
        },
        spare: { models: { both: 'm' }, priority: 1 }
      },
      models: { alone: { price: { input: 1, output: 2 } }, both: { price: { input: 1, output: 2 } } }
    },
    { upstreams: { spare } }
  )
  return { local, bedrock, spare }
}

const chat = (model: string, more: Json = {}): Json => ({ model, messages: [{ role: 'user', content: 'Hi' }], ...more })

t.test('a whole answer: signed, to the path of the model, with its usage', async (t) => {
  const { local, bedrock } = await open(t, () => ({ json: converseAnswer(answer) }))
  const reply = await local.chat(chat('alone', { max_completion_tokens: 50 }))
  t.equal(reply.status, 200)
  t.match(reply.json(), {
    model: 'alone',
    choices: [{ finish_reason: 'stop', message: { content: said } }],
    usage: { prompt_tokens: 12, completion_tokens: 6, prompt_tokens_details: { cached_tokens: 3 } }
  })
  const [asked] = bedrock.asked
  t.match(asked, {
    model: arn,
    operation: 'converse',
    body: { messages: [{ role: 'user', content: [{ text: 'Hi' }] }], inferenceConfig: { maxTokens: 50 } }
  })
  t.equal(asked!.path, `/model/${encodeURIComponent(arn)}/converse`)
  t.match(await local.record(reply), {
    channel_protocol: 'bedrock',
    usage: { input: 9, cached_input: 3, output: 6 },
    usage_source: 'upstream'
  })
  await local.chat(chat('both'))
  t.equal(bedrock.asked[1]!.path, '/model/us.a-v1%3A0/converse')
})

t.test('a stream, however it is cut', async (t) => {
  const whole = converseBytes(events)
  let pieces: Buffer[] = []
  const { local } = await open(t, () => ({ frames: pieces }))
  for (const size of [whole.length, 1, 13, 100]) {
    pieces = []
    for (let at = 0; at < whole.length; at += size) pieces.push(whole.subarray(at, at + size))
    const reply = await local.chat(chat('alone', { stream: true, stream_options: { include_usage: true } }))
    const chunks = reply.text
      .split('\n\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)) as Json)
    t.equal(chunks.map((chunk) => chunk['choices'][0]?.delta.content ?? '').join(''), said, `pieces of ${size}`)
    t.match(chunks.at(-1), { usage: { prompt_tokens: 12, completion_tokens: 6 } })
    t.match(reply.text, /data: \[DONE\]/)
    t.match(reply.headers['content-type'], /^text\/event-stream/, 'in the type of what the client gets')
    t.match(await local.record(reply), { outcome: 'completed', usage_source: 'upstream' })
  }
})

t.test('what breaks in a stream is an error of the client, and never an end', async (t) => {
  const begun = converseBytes(events.slice(0, 4))
  const wrong = Buffer.from(converseBytes(events.slice(4, 5)))
  wrong[wrong.length - 6]! ^= 1
  const breaks: Record<string, BedrockAnswer> = {
    'a wrong checksum': { frames: [begun, wrong, converseBytes(events.slice(5))] },
    'a message that is cut': { frames: [begun, converseBytes(events.slice(4, 5)).subarray(0, 40)] },
    'an end between messages': { frames: [begun] },
    'an end before the usage': { frames: [converseBytes(events.slice(0, -1))] },
    'a connection that breaks': { frames: [begun], cut: true },
    'an exception': { frames: [begun, exceptionFrame('modelStreamErrorException', 'Lost it')] },
    'an error': {
      frames: [begun, frame({ ':message-type': 'error', ':error-code': '500', ':error-message': 'Lost' })]
    },
    'an exception behind the stop reason': {
      frames: [converseBytes(events.slice(0, -1)), exceptionFrame('internalServerException', 'Lost it')]
    }
  }
  let present: BedrockAnswer = { json: {} }
  const { local } = await open(t, () => present)
  for (const [what, breaking] of Object.entries(breaks)) {
    present = breaking
    const reply = await local.chat(chat('alone', { stream: true }))
    t.notMatch(reply.text, /\[DONE\]|"finish_reason":"stop"/, what)
    t.match(reply.text, /"error":\{/, what)
    t.match(await local.record(reply), { outcome: 'failed' }, what)
    const messages = await local.ask({
      path: '/v1/messages',
      headers: { 'x-api-key': testKey },
      body: chat('alone', { max_tokens: 9, stream: true })
    })
    t.match(messages.text, /"type":"error"/, what)
    t.notMatch(messages.text, /message_stop/, what)
  }
})

t.test('an answer that the model gave up is an error, with the usage that came behind it', async (t) => {
  const gaveUp = events.map(([type, event]): (typeof events)[number] =>
    type === 'messageStop' ? [type, { stopReason: 'malformed_model_output' }] : [type, event]
  )
  const { local } = await open(t, () => ({ frames: [converseBytes(gaveUp)] }))
  const reply = await local.chat(chat('alone', { stream: true }))
  t.match(reply.text, /"error":\{/)
  t.notMatch(reply.text, /\[DONE\]|"finish_reason":"/)
  t.match(await local.record(reply), {
    outcome: 'failed',
    usage: { input: 9, cached_input: 3, output: 6 },
    usage_source: 'upstream'
  })
})

t.test('a failure before anything was shown goes to the next channel', async (t) => {
  let present: BedrockAnswer = { json: {} }
  const { local, bedrock, spare } = await open(t, () => present)
  const failures: [BedrockAnswer, string][] = [
    [{ frames: [exceptionFrame('throttlingException', 'Too many tokens')] }, 'upstream_rate_limited'],
    [
      { frames: [converseBytes(events.slice(0, 1)), exceptionFrame('serviceUnavailableException', 'Busy')] },
      'upstream_bad_response'
    ],
    [error(429, 'ThrottlingException', 'Too many requests'), 'upstream_rate_limited'],
    [error(400, 'ServiceQuotaExceededException', 'Too many tokens'), 'upstream_rate_limited'],
    [error(424, 'ModelErrorException', 'The model failed'), 'upstream_bad_response'],
    [error(503, 'ServiceUnavailableException', 'Busy'), 'upstream_bad_response'],
    [error(403, 'AccessDeniedException', "You don't have access to the model"), 'upstream_model_missing'],
    [
      error(400, 'ValidationException', "Invocation of model ID a-v1:0 with on-demand throughput isn't supported."),
      'upstream_model_missing'
    ]
  ]
  for (const [failure, code] of failures) {
    present = failure
    // Each by a gateway that has not met the last one: a channel that failed rests.
    const fresh = await open(t, () => present)
    fresh.spare.json(chatAnswer())
    const reply = await fresh.local.chat(chat('both', { stream: 'frames' in failure }))
    t.equal(reply.status, 200, code)
    t.match(
      await fresh.local.record(reply),
      { attempts: [{ channel: 'up', error_code: code }, { channel: 'spare' }] },
      code
    )
  }
  present = error(400, 'ValidationException', 'Malformed input request')
  const refused = await local.chat(chat('both'))
  t.equal(refused.status, 400)
  t.match(refused.json(), { error: { message: 'Malformed input request' } })
  t.equal(bedrock.asked.length, 1)
  t.equal(spare.requests.length, 0, 'what is wrong with a request is wrong everywhere')
  present = error(400, 'ValidationException', 'Input is too long for requested model.')
  t.match((await local.chat(chat('alone'))).json(), { error: { code: 'context_length_exceeded' } })
})

t.test('a clock that is ten minutes off is told, or made good by the date of the upstream', async (t) => {
  const { local, bedrock } = await open(t, () => ({ json: converseAnswer(answer) }))
  bedrock.ahead = 600_000
  bedrock.undated = true
  const reply = await local.chat(chat('alone'))
  t.match(reply.json(), { error: { code: 'upstream_auth_failed' } })
  t.match(JSON.stringify(await local.record(reply)), /Signature expired: \d{8}T\d{6}Z is now earlier than/)
  const other = await open(t, () => ({ json: converseAnswer(answer) }))
  other.bedrock.ahead = 600_000
  t.equal((await other.local.chat(chat('alone'))).status, 200)
  t.ok(other.local.lines.some(({ message }) => message.startsWith('the clock of this machine differs')))
})

function error(status: number, kind: string, message: string): BedrockAnswer {
  return { status, headers: { 'x-amzn-errortype': `${kind}:http://internal.amazon.com/coral/` }, json: { message } }
}
