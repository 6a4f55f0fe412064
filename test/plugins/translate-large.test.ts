// Requests and answers that are too large to be translated at once: the same comes of them, in the order in which they
// came, whatever becomes of the thread.
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { GatewayError, translateRequest, translateWhole, Untranslatable } from '../../core/contract/contract.ts'
import type { AnswerHead, AnswerTask, Keepsake, RequestTask, TranslatedRequest } from '../../core/contract/contract.ts'
import { Translator } from '../../plugins/protocol-translate/translator.ts'
import { Upstream } from '../kit/upstream.ts'
import { channelTo, Workbench } from '../kit/workbench.ts'

const filler = 'x'.repeat(200_000)
const task: RequestTask = {
  client: 'openai-chat',
  upstream: 'anthropic',
  head: { model: 'demo', streaming: false },
  target: { model: 'upstream-demo', traits: {} }
}
const call = { id: 'call_1', type: 'function', function: { name: 'find it!', arguments: '{"a":1}' } }
const request = (text: string): object => ({
  model: 'demo',
  max_completion_tokens: 9,
  seed: 1,
  tools: [{ type: 'function', function: { name: 'find it!', parameters: { type: 'object' } } }],
  messages: [
    { role: 'user', content: text },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'call_1', content: 'found' }
  ]
})
const bytes = (value: unknown): Buffer[] => {
  const json = Buffer.from(JSON.stringify(value))
  return [json.subarray(0, 10), json.subarray(10)]
}
const thoughts: Keepsake = {
  thoughts: [{ type: 'reasoning', text: 'hm', proof: { family: 'anthropic', kind: 'signature', value: 'proof' } }]
} as unknown as Keepsake

t.test('a large request becomes what a small one becomes', async (t) => {
  const translator = new Translator()
  t.teardown(() => translator.close())
  const asked: string[] = []
  const find = (calls: readonly string[]): Map<string, Keepsake> => (
    asked.push(...calls),
    new Map([['call_1', thoughts]])
  )
  const small = translator.translate(bytes(request('hi')), task, find)
  t.notOk(small instanceof Promise, 'a small one at once')
  const large = translator.translate(bytes(request(filler)), task, find)
  t.ok(large instanceof Promise, 'a large one beside the loop')
  const bodyOf = async (translated: TranslatedRequest | Promise<TranslatedRequest>): Promise<unknown> =>
    JSON.parse(
      Buffer.from((await translated).body)
        .toString()
        .replace(filler, 'hi')
    )
  t.strictSame(await bodyOf(large), await bodyOf(small))
  t.match(JSON.stringify(await bodyOf(small)), '"signature":"proof"', 'with what was kept')
  t.strictSame(asked, ['call_1', 'call_1'], 'which was asked for once each')
  const [one, other] = [await small, await large]
  t.strictSame({ ...other, body: '' }, { ...one, body: '' }, 'and what the answer is understood by')
  t.match(one, { dropped: ['seed'] })
})

t.test('refusals come out of the thread as they are, and one request does not end the next', async (t) => {
  const translator = new Translator()
  t.teardown(() => translator.close())
  const find = (): Map<string, Keepsake> => new Map()
  const wrong = translator.translate(
    bytes({ ...request(filler), messages: [{ role: 'nobody', content: filler }] }),
    task,
    find
  )
  const fine = translator.translate(bytes(request(filler)), task, find)
  const error = await Promise.resolve(wrong).catch((reason: unknown) => reason)
  t.ok(error instanceof Untranslatable)
  t.match(error, { code: 'unsupported_parameter', param: /^messages\[0\]/ })
  t.ok((await fine).body.length > filler.length)
  const unsealed = await translator.unseal(
    bytes({
      messages: [
        {
          role: 'assistant',
          content: [{ type: 'thinking', thinking: filler, signature: 'sluice1.openai.encrypted.rs_1.abc' }]
        }
      ]
    }),
    'anthropic'
  )
  t.equal(unsealed?.key, 'messages')
  t.notMatch(unsealed?.json, 'sluice1')
})

t.test("an answer that comes as its thread is given up is nobody else's", async (t) => {
  const patience = 1500
  const translator = new Translator(patience)
  t.teardown(() => translator.close())
  const large = filler.repeat(100)
  const ask = async (mark: string, text: string): Promise<string> => {
    const { body } = await translator.translate(bytes(request(`${mark} ${text}`)), task, () => new Map())
    return /first|second|third/.exec(Buffer.from(body).toString('latin1', 0, 1000))![0]
  }
  // The thread is there.
  await ask('first', filler).catch(() => {})
  const asked = Promise.allSettled([ask('first', large), ask('second', large), ask('third', large)])
  await sleep(100)
  await turn()
  // Meanwhile the thread has answered, and time is up before that is seen.
  const until = performance.now() + patience
  while (performance.now() < until);
  for (const [index, one] of (await asked).entries()) {
    if (one.status === 'fulfilled') t.equal(one.value, ['first', 'second', 'third'][index])
    else t.equal(index, 0, 'nobody is given up but who was with the thread')
  }
})

t.test('a question that cannot be asked is answered with that, and the next one is asked', async (t) => {
  const translator = new Translator()
  t.teardown(() => translator.close())
  const wrong = { ...task, head: { ...task.head, model: (() => {}) as unknown as string } }
  await t.rejects(Promise.resolve(translator.translate(bytes(request(filler)), wrong, () => new Map())), {
    name: 'DataCloneError'
  })
  t.ok((await translator.translate(bytes(request(filler)), task, () => new Map())).body.length > filler.length)
})

t.test('a request that takes too long is refused, and the next has another thread', async (t) => {
  const translator = new Translator(1)
  t.teardown(() => translator.close())
  const ask = (): Promise<unknown> =>
    Promise.resolve(translator.translate(bytes(request(filler.repeat(20))), task, () => new Map())).catch(
      (reason: unknown) => reason
    )
  for (const error of await Promise.all([ask(), ask()])) {
    t.ok(error instanceof GatewayError)
    t.match(error, { code: 'invalid_request', message: /too involved/ })
  }
})

const asked = translateRequest(
  Buffer.from('{"model":"demo","messages":[{"role":"user","content":"Hi"}]}'),
  task,
  () => new Map()
) as TranslatedRequest
const terms: AnswerTask = {
  client: asked.client,
  upstream: asked.upstream,
  target: asked.target,
  offered: asked.offered,
  hidesThoughts: asked.hidesThoughts
}
const answerHead: AnswerHead = { id: 'one', created: 1, model: 'demo', request: {}, usage: false }
const message = (text: string): object => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'demo',
  stop_reason: 'tool_use',
  usage: { input_tokens: 1, output_tokens: 1 },
  content: [
    { type: 'thinking', thinking: 'hm', signature: 'proof' },
    { type: 'text', text },
    { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 1 } }
  ]
})
const whole = (text: string): Buffer => Buffer.from(JSON.stringify(message(text)))
const here = (): AbortSignal => new AbortController().signal

t.test('a large answer becomes what a small one becomes, with what is kept of it', async (t) => {
  const translator = new Translator()
  t.teardown(() => translator.close())
  t.equal(translator.answerBeside(whole('hi'), terms, answerHead, here()), undefined, 'a small one at once')
  const small = translateWhole(whole('hi'), terms, answerHead)
  const large = await translator.answerBeside(whole(filler), terms, answerHead, here())!
  t.equal(Buffer.from(large.body).toString().replace(filler, 'hi'), Buffer.from(small.body).toString())
  t.strictSame([...large.kept], [...small.kept])
  t.equal(large.kept.size, 1)
  const wrong = await translator
    .answerBeside(Buffer.from(`{"content":"${filler}"`), terms, answerHead, here())!
    .catch((reason: unknown) => reason)
  t.ok(wrong instanceof Untranslatable)
  t.match(wrong, { code: 'upstream_bad_response' })
})

t.test(
  "an answer that takes too long is the upstream's, one that nobody wants does not wait, and not all may",
  async (t) => {
    const slow = new Translator(1)
    t.teardown(() => slow.close())
    const lost = await slow
      .answerBeside(whole(filler.repeat(20)), terms, answerHead, here())!
      .catch((reason: unknown) => reason)
    t.ok(lost instanceof GatewayError)
    t.match(lost, { code: 'upstream_bad_response', message: /too involved/ })

    const translator = new Translator()
    t.teardown(() => translator.close())
    const left = new AbortController()
    const first = translator.answerBeside(whole(filler), terms, answerHead, here())!
    const second = translator
      .answerBeside(whole(filler), terms, answerHead, left.signal)!
      .catch((reason: unknown) => reason)
    const third = translator.answerBeside(whole(filler), terms, answerHead, here())!
    left.abort()
    t.match(await second, { code: 'client_closed' })
    const tooMuch = translator
      .answerBeside(Buffer.alloc(256 * 1024 * 1024), terms, answerHead, here())!
      .catch((reason: unknown) => reason)
    t.match(await tooMuch, { code: 'overloaded' })
    t.ok(
      (await first).body.length > filler.length && (await third).body.length > filler.length,
      'the others are answered'
    )
  }
)

t.test('a large answer end to end, from another channel after one that is none', async (t) => {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const channels = {
    first: channelTo(first, { protocol: 'anthropic' }),
    second: channelTo(second, { protocol: 'anthropic', priority: 1 })
  }
  const bench = await Workbench.open(t, { channels })
  first.json({ ...message(filler), content: [{ type: 'tool_use', id: 'toolu_1', input: { a: filler } }] })
  second.json(message(filler))
  const answer = await bench.send({ body: { messages: [{ role: 'user', content: 'Hi' }] } })
  t.equal(answer.status, 200)
  t.equal(JSON.parse(answer.body).choices[0].message.content, filler)
  t.equal(first.requests.length, 1, "the other channel was asked when the first one's could not be understood")
  t.same(bench.ledger.open, [])
})

t.test('end to end, with another channel that gets it again', async (t) => {
  const [first, second] = [await Upstream.start(t), await Upstream.start(t)]
  const channels = {
    first: channelTo(first, { protocol: 'anthropic' }),
    second: channelTo(second, { protocol: 'anthropic', priority: 1 })
  }
  const bench = await Workbench.open(t, { channels })
  first.json({ type: 'error', error: { type: 'api_error', message: 'broken' } }, { status: 500 })
  second.json({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'demo',
    content: [{ type: 'text', text: 'Hello' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 1, output_tokens: 1 }
  })
  const answer = await bench.send({ body: { messages: [{ role: 'user', content: filler }], seed: 1 } })
  t.equal(answer.status, 200)
  t.equal(answer.headers['x-sluice-dropped'], 'seed')
  t.equal(JSON.parse(answer.body).choices[0].message.content, 'Hello')
  for (const upstream of [first, second]) t.match(upstream.requests[0]!.json().messages, [{ role: 'user' }])
  t.equal(JSON.stringify(second.requests[0]!.json()).length > filler.length, true)
  const refused = await bench.send({ body: { messages: [{ role: 'nobody', content: filler }] } })
  t.match(refused, { status: 400, body: /messages\[0\]/ })
  t.same(bench.ledger.open, [])
})
