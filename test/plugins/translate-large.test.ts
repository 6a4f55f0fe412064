// Requests and answers that are too large to be translated at once: the same comes of them, in the order in which they
// came, whatever becomes of the thread.
// Runs alone: it measures the memory of its process.
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { OwnAllowance } from '../../core/allowance.ts'
import { effortOf, isInvolved } from '../../plugins/protocol-translate/effort.ts'
import type { Cache } from '../../core/store/cache.ts'
import { MemoryCache } from '../../core/store/memory/cache.ts'
import { Keepsakes } from '../../plugins/protocol-translate/keepsakes.ts'
import { Line } from '../../plugins/protocol-translate/line.ts'
import type { Waiter } from '../../plugins/protocol-translate/line.ts'
import { GatewayError, translateRequest, translateWhole, Untranslatable } from '../../core/contract/contract.ts'
import type { AnswerHead, AnswerTask, Keepsake, RequestTask, TranslatedRequest } from '../../core/contract/contract.ts'
import { Translator } from '../../plugins/protocol-translate/translator.ts'
import type { Asker } from '../../plugins/protocol-translate/translator.ts'
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
const asker = (tenant = 'acme', left = new AbortController().signal): Asker => ({ tenant, left })
const thoughts: Keepsake = {
  thoughts: [{ type: 'reasoning', text: 'hm', proof: { family: 'anthropic', kind: 'signature', value: 'proof' } }]
} as unknown as Keepsake

t.test('a large request becomes what a small one becomes', async (t) => {
  const translator = new Translator(new OwnAllowance())
  t.teardown(() => translator.close())
  const asked: string[] = []
  const find = (calls: readonly string[]): Map<string, Keepsake> => (
    asked.push(...calls),
    new Map([['call_1', thoughts]])
  )
  const small = translator.translate(bytes(request('hi')), task, find, asker())
  t.notOk(small instanceof Promise, 'a small one at once')
  const large = translator.translate(bytes(request(filler)), task, find, asker())
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
  const translator = new Translator(new OwnAllowance())
  t.teardown(() => translator.close())
  const find = (): Map<string, Keepsake> => new Map()
  const wrong = translator.translate(
    bytes({ ...request(filler), messages: [{ role: 'nobody', content: filler }] }),
    task,
    find,
    asker()
  )
  const fine = translator.translate(bytes(request(filler)), task, find, asker())
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
    'anthropic',
    asker()
  )
  t.equal(unsealed?.key, 'messages')
  t.notMatch(unsealed?.json, 'sluice1')
})

t.test("an answer that comes as its thread is given up is nobody else's", async (t) => {
  const patience = 1500
  const translator = new Translator(new OwnAllowance(), { patience, threads: 1 })
  t.teardown(() => translator.close())
  const large = filler.repeat(25)
  const ask = async (mark: string, text: string): Promise<string> => {
    const { body } = await translator.translate(bytes(request(`${mark} ${text}`)), task, () => new Map(), asker())
    return /first|second|third/.exec(Buffer.from(body).toString('latin1', 0, 1000))![0]
  }
  // The thread is there.
  await ask('first', filler).catch(() => {})
  const asked = Promise.allSettled([ask('first', large), ask('second', large), ask('third', large)])
  await sleep(100)
  await turn()
  // Meanwhile the thread may have answered, and time is up before that is seen.
  const until = performance.now() + patience
  while (performance.now() < until);
  for (const [index, one] of (await asked).entries()) {
    if (one.status === 'fulfilled') t.equal(one.value, ['first', 'second', 'third'][index])
    else t.match(one.reason, { code: 'invalid_request' }, 'given up, which is what a slow machine may come to')
  }
})

t.test('a question that cannot be asked is answered with that, and the next one is asked', async (t) => {
  const translator = new Translator(new OwnAllowance())
  t.teardown(() => translator.close())
  const wrong = { ...task, head: { ...task.head, model: (() => {}) as unknown as string } }
  await t.rejects(Promise.resolve(translator.translate(bytes(request(filler)), wrong, () => new Map(), asker())), {
    name: 'DataCloneError'
  })
  t.ok((await translator.translate(bytes(request(filler)), task, () => new Map(), asker())).body.length > filler.length)
})

t.test('a request that takes too long is refused, and the next has another thread', async (t) => {
  const translator = new Translator(new OwnAllowance(), { patience: 1 })
  t.teardown(() => translator.close())
  const ask = (): Promise<unknown> =>
    Promise.resolve(translator.translate(bytes(request(filler.repeat(20))), task, () => new Map(), asker())).catch(
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

t.test('a large answer becomes what a small one becomes, with what is kept of it', async (t) => {
  const translator = new Translator(new OwnAllowance())
  t.teardown(() => translator.close())
  t.equal(translator.answerBeside(whole('hi'), terms, answerHead, asker()), undefined, 'a small one at once')
  const small = translateWhole(whole('hi'), terms, answerHead)
  const large = await translator.answerBeside(whole(filler), terms, answerHead, asker())!
  t.equal(Buffer.from(large.body).toString().replace(filler, 'hi'), Buffer.from(small.body).toString())
  t.strictSame([...large.kept], [...small.kept])
  t.equal(large.kept.size, 1)
  const wrong = await translator
    .answerBeside(Buffer.from(`{"content":"${filler}"`), terms, answerHead, asker())!
    .catch((reason: unknown) => reason)
  t.ok(wrong instanceof Untranslatable)
  t.match(wrong, { code: 'upstream_bad_response' })
})

t.test(
  'an answer that takes too long is not asked for again, one that nobody wants does not wait, and not all may',
  async (t) => {
    const slow = new Translator(new OwnAllowance(), { patience: 1 })
    t.teardown(() => slow.close())
    const lost = await slow
      .answerBeside(whole(filler.repeat(20)), terms, answerHead, asker())!
      .catch((reason: unknown) => reason)
    t.ok(lost instanceof GatewayError)
    t.match(lost, { code: 'answer_too_large', message: /too involved/ })

    const translator = new Translator(new OwnAllowance(), { threads: 1 })
    t.teardown(() => translator.close())
    const left = new AbortController()
    const first = translator.answerBeside(whole(filler), terms, answerHead, asker())!
    const second = translator
      .answerBeside(whole(filler), terms, answerHead, asker('acme', left.signal))!
      .catch((reason: unknown) => reason)
    const third = translator.answerBeside(whole(filler), terms, answerHead, asker())!
    left.abort()
    t.match(await second, { code: 'client_closed' })
    const tooMuch = translator
      .answerBeside(Buffer.alloc(256 * 1024 * 1024), terms, answerHead, asker())!
      .catch((reason: unknown) => reason)
    t.match(await tooMuch, { code: 'overloaded' })
    t.ok(
      (await first).body.length > filler.length && (await third).body.length > filler.length,
      'the others are answered'
    )
  }
)

t.test("a tenant's large ones keep no other tenant waiting, nor its own small ones", async (t) => {
  for (const threads of [1, 2]) {
    const translator = new Translator(new OwnAllowance(), { threads })
    t.teardown(() => translator.close())
    const order: string[] = []
    const ask = async (tenant: string, mark: string, times: number): Promise<void> => {
      await translator.translate(bytes(request(filler.repeat(times))), task, () => new Map(), asker(tenant))
      order.push(`${tenant} ${mark}`)
    }
    // The thread is there, and busy.
    const all = [ask('acme', 'first', 20)]
    for (let nth = 0; nth < 5; nth++) all.push(ask('acme', `large ${nth}`, 20))
    all.push(ask('rival', 'large', 10), ask('acme', 'small', 1), ask('other', 'small', 1))
    await Promise.all(all)
    const place = (mark: string): number => order.indexOf(mark)
    const said = order.join(', ')
    t.ok(place('acme large 0') < place('acme large 4'), `equals go in the order in which they came: ${said}`)
    // Of two threads on a busy machine one may stand still while the other ends all that it has.
    if (threads > 1) continue
    t.ok(place('other small') <= 1, said)
    t.ok(place('acme small') <= 2, said)
    t.ok(place('rival large') < place('acme large 1'), `its turn comes after one of the first: ${said}`)
  }
})

t.test('of what waits there is a bound, half of which one tenant may fill', async (t) => {
  const translator = new Translator(new OwnAllowance(), { threads: 1 })
  t.teardown(() => translator.close())
  const large = Buffer.alloc(30 * 1024 * 1024, ' ')
  const left = new AbortController()
  const asked: Promise<string>[] = []
  const ask = (tenant: string): void => {
    const done = translator.translate([large], task, () => new Map(), asker(tenant, left.signal))
    asked.push(
      Promise.resolve(done).then(
        () => 'done',
        (error: GatewayError) => error.code
      )
    )
  }
  const refused = async (): Promise<number> => {
    await turn()
    const now = await Promise.all(asked.map((one) => Promise.race([one, turn('waiting')])))
    return now.filter((code) => code === 'overloaded').length
  }
  for (let nth = 0; nth < 8; nth++) ask('acme')
  t.equal(await refused(), 3, 'one is being copied, four wait')
  for (let nth = 0; nth < 3; nth++) ask('rival')
  t.equal(await refused(), 4, 'and two of another tenant')
  ask('other')
  t.equal(await refused(), 4, 'for whom there was room')
  const error = await Promise.resolve(translator.translate([large], task, () => new Map(), asker())).catch(String)
  t.match(error, /Too much waits/)
  left.abort()
  const codes = await Promise.all(asked)
  t.equal(codes.filter((code) => code === 'client_closed').length, 7, 'who leaves does not wait')
})

t.test('translating 31 MiB takes less than eight times as much memory, or is refused before', async (t) => {
  const size = 31 * 1024 * 1024
  const filled = (unit: string): Buffer => {
    const [before, after] = ['{"model":"demo","messages":[', '{"role":"user","content":"a"}]}']
    const count = Math.floor((size - before.length - after.length) / unit.length)
    return Buffer.concat([Buffer.from(before), Buffer.alloc(count * unit.length, unit), Buffer.from(after)])
  }
  const translator = new Translator(new OwnAllowance(), { threads: 1 })
  t.teardown(() => translator.close())
  await translator.translate(bytes(request(filler)), task, () => new Map(), asker())
  const taken = async (body: Buffer): Promise<{ most: number; result: unknown }> => {
    let most = 0
    const before = process.memoryUsage.rss()
    const timer = setInterval(() => (most = Math.max(most, process.memoryUsage.rss() - before)), 5)
    const result = await Promise.resolve(translator.translate([body], task, () => new Map(), asker())).then(
      ({ body: made }) => made.length,
      (error: unknown) => error
    )
    clearInterval(timer)
    return { most, result }
  }
  const text = 'word '.repeat(200)
  const usual = await taken(filled(`{"role":"user","content":"${text}"},{"role":"assistant","content":"${text}"},`))
  t.ok((usual.result as number) > size / 2)
  t.ok(usual.most < 8 * size, `${Math.round(usual.most / 1024 / 1024)} MiB`)
  const involved = await taken(filled('{"role":"user","content":"a"},'))
  t.match(involved.result, { code: 'invalid_request', message: /too involved/ })
  t.ok(involved.most < 8 * size, `${Math.round(involved.most / 1024 / 1024)} MiB`)
})

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

t.test('whoever waits for a thread is next by the bytes that its tenant has had', async (t) => {
  const one = (tenant: string, size: number, name = ''): Waiter & { name: string } => ({ tenant, size, name })
  const line = new Line<Waiter & { name: string }>()
  const order = (count = Infinity, most?: number): string => {
    let names = ''
    for (let i = 0; i < count; i++) {
      const next = line.next(most)
      if (!next) break
      names += next.name
    }
    return names
  }
  for (const name of 'abc') line.push(one('A', 10, name))
  line.push(one('B', 10, 'x'))
  t.same([line.bytes, line.bytesOf('A'), line.bytesOf('B'), line.bytesOf('C')], [40, 30, 10, 0])
  t.equal(order(), 'axbc')
  t.same([line.bytes, line.bytesOf('A')], [0, 0])

  for (let i = 0; i < 10; i++) line.push(one('A', 10, 'a'))
  t.equal(order(5), 'aaaaa')
  t.equal(line.bytesOf('A'), 50)
  for (let i = 0; i < 5; i++) line.push(one('B', 10, 'b'))
  t.equal(order(), 'babababab' + 'a', 'whoever comes later has saved nothing')

  line.push(one('A', 15, 'a'))
  for (let i = 0; i < 5; i++) line.push(one('B', 10, 'b'))
  t.equal(order(4), 'babb')
  line.push(one('A', 22, 'a'))
  t.equal(order(), 'bab', 'nor whoever comes again')

  line.push(one('A', 100, 'L'))
  let passed = 0
  for (; passed < 20; passed++) {
    line.push(one('A', 10, 's'))
    if (order(1) === 'L') break
  }
  t.equal(passed, 9, 'small ones go before a large one, but not more than it has itself')
  t.equal(order(), 's')

  const [small, large] = [one('A', 5, 's'), one('A', 6, 'l')]
  line.push(large)
  line.push(small)
  t.equal(order(1, 4), '', 'none is that small')
  t.equal(order(Infinity, 5), 's')
  t.equal(line.remove(small), false, 'it had its turn')
  t.equal(line.remove(large), true)
  t.same([line.bytes, order()], [0, ''])
})

t.test('what translating takes is told by the structure alone', async (t) => {
  const effort = (text: string, most = Infinity): number => effortOf(Buffer.from(text), most)
  t.equal(effort('{"a":1}'), 7 * 3 + 2 * 320)
  t.equal(effort('[1,2]'), 5 * 3 + 2 * 40)
  t.equal(effort('{"a":"{,"}'), 10 * 3 + 2 * 320, 'text is no structure')
  t.equal(effort('"{:,[\\"{"'), 9 * 3)
  const stopped = effort('{'.repeat(1000), 10_000)
  t.ok(stopped > 10_000 && stopped < 11_000, 'no more is looked at than is needed')
  const involved = (text: string): boolean => isInvolved(Buffer.from(text))
  t.equal(involved(','.repeat(64 * 1024)), false, 'small')
  t.equal(involved(','.repeat(64 * 1024 + 1)), true)
  t.equal(involved(`[${'1,'.repeat(49_999)}1]`), false, 'fifty thousand values')
  t.equal(involved(`[${'1,'.repeat(50_000)}1]`), true)
  t.equal(involved(`"${','.repeat(8 * 1024 * 1024 - 2)}"`), false, 'a picture')
  t.equal(involved(`"${','.repeat(8 * 1024 * 1024 - 1)}"`), true)
})

t.test("what clients cannot keep is a tenant's own, wherever the cache is", async (t) => {
  const cache = new MemoryCache(1024 * 1024)
  const elsewhere: Cache = {
    get: async (...asked) => cache.get(...asked),
    set: async (...kept) => cache.set(...kept),
    delete: async (...gone) => cache.delete(...gone)
  }
  for (const kept of [new Keepsakes(cache), new Keepsakes(elsewhere)]) {
    type Keepsake = Parameters<Keepsakes['put']>[2]
    const of = (text: string): Keepsake => ({ thoughts: [], text }) as unknown as Keepsake
    kept.put('A', 'call', of('one'))
    kept.put('A', 'last', of('three'))
    t.same(await kept.find('B', ['call']), new Map())
    t.same(await kept.find('A', ['other']), new Map())
    kept.put('A', 'call', of('two'))
    const both = [
      ['call', of('two')],
      ['last', of('three')]
    ] as const
    t.same(await kept.find('A', ['call', 'other', 'last']), new Map(both))
  }
})
