// What the plugin quota holds for a request, and what it tells the upstream and the client of it.
import t from 'tap'
import { BodyEdit } from '../../core/bodies/body.ts'
import type { GatewayError } from '../../core/contract/contract.ts'
import type { Metering } from '../../core/contract/operation.ts'
import { caller, goingOn, prompt, quote, reservation, spent } from '../../core/contract/slots.ts'
import type { Price } from '../../core/money/price.ts'
import { checkerOf } from '../../core/options/schema-check.ts'
import { responsesTools } from '../../core/protocols/counting/hosted-tools.ts'
import type { ReserveRequest } from '../../core/store/ledger.ts'
import { offeredTools } from '../../plugins/estimate.ts'
import quota from '../../plugins/quota/index.ts'
import { promptUsage } from '../../plugins/quota/prompt.ts'
import { billed } from '../../plugins/quota/turns.ts'
import { TestLedger } from '../kit/ledger.ts'
import { one, priceOf, Running, attemptOf, perToken, Turning, used } from '../kit/quota.ts'

/** The plugin with a model at these prices, as it is set up with options that are not given otherwise. */
async function pluginWith(
  prices: readonly { from: number; price: Price }[],
  { ledger = new TestLedger(), model = {}, ...options }: { ledger?: TestLedger; model?: object } & Setting = {}
) {
  const models = new Map([['demo', { name: 'demo', prices, ...model }]])
  const given = checkerOf(quota.options, quota.required)(options)
  t.same(given.faults, [])
  const catalogue = { models, scopesNow: ({ scopes }: { scopes: object[] }) => [...scopes, 'now'] }
  return quota.setup(given.value as never, { catalogue, services: { ledger } } as never)
}

type Setting = Partial<Parameters<typeof quota.setup>[0]>

/** A request of a key with so much left. */
function asking(
  limit: bigint | undefined,
  metering: Partial<Metering> | undefined,
  body: object,
  more: object = {}
): Running {
  const running = new Running([], metering, body)
  if (!metering) Object.assign(running.request, { operation: { name: 'models' } })
  const budgets = limit === undefined ? [] : [{ limit, per: 'total' }]
  running.set(caller, { key: 'k', scopes: [{ kind: 'key', id: 'key:k', budgets }] })
  return Object.assign(running, more)
}

const always = (price: Price) => [{ from: -Infinity, price }]
const chat = { outputLimits: ['max_completion_tokens', 'max_tokens'] }

async function heldFor(
  running: Running,
  setting: Setting & { model?: object },
  price = perToken
): Promise<ReserveRequest> {
  const ledger = new TestLedger()
  const hooks = await pluginWith(always(price), { ledger, ...setting })
  await hooks.onRequest!(running as never)
  return ledger.rows[0]!.request
}

t.test('what is held where nobody says otherwise is what the options say', async (t) => {
  const output = priceOf({ output: one })
  t.equal((await heldFor(asking(undefined, chat, {}), {}, output)).amount, 4096n)
  t.equal((await heldFor(asking(undefined, chat, {}), { default_output: 1 }, output)).amount, 1n)
  const document = { messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'f' } }] }] }
  const input = priceOf({ input: one })
  t.equal((await heldFor(asking(undefined, chat, document), {}, input)).amount, 200_000n)
  t.equal((await heldFor(asking(undefined, chat, document), { default_context: 5000 }, input)).amount, 5000n)
  const tools = { outputLimits: [], tools: responsesTools }
  const search = { tools: [{ type: 'web_search' }] }
  const calls = priceOf({ web_search: one, output: one })
  t.equal((await heldFor(asking(undefined, tools, search), {}, calls)).amount, 16n)
  t.equal((await heldFor(asking(undefined, tools, search), { tool_calls: 1 }, calls)).amount, 1n)
  const check = checkerOf(quota.options, quota.required)
  for (const name of ['default_output', 'default_context', 'tool_calls']) {
    t.same(check({ [name]: 1 }).faults, [])
    t.match(check({ [name]: 0 }).faults, [{ pointer: `/${name}` }])
  }
})

t.test('what is only explained holds nothing, and says what would be held', async (t) => {
  const ledger = new TestLedger()
  const hooks = await pluginWith(always(perToken), { ledger, clamp_output: true })
  const rehearsal = { rehearsal: { key: undefined }, setHeader() {} }
  const whole = asking(undefined, chat, { max_tokens: 5 }, rehearsal)
  await hooks.onRequest!(whole as never)
  const input = whole.body.bytes.length
  t.same(whole.find(quote), {
    amount: BigInt(input + 10),
    priceVersion: 'v',
    lines: [
      { counter: 'prompt', units: input, perMillion: one },
      { counter: 'answer', units: 5, perMillion: 2n * one }
    ],
    maxOutput: undefined
  })
  const lowered = asking(BigInt(input + 6), chat, { max_tokens: 5 }, rehearsal)
  await hooks.onRequest!(lowered as never)
  t.match(lowered.find(quote), { amount: BigInt(input + 6), maxOutput: 3 })
  await hooks.onRequest!(asking(undefined, { ...chat, turns: true }, {}, rehearsal) as never)
  t.same(ledger.rows, [])
  const real = asking(undefined, chat, { max_tokens: 5 })
  await hooks.onRequest!(real as never)
  t.equal(real.find(quote), undefined)
  await hooks.onRequest!(asking(undefined, { ...chat, turns: true }, {}) as never)
  t.equal(ledger.rows.length, 2)
})

t.test('a model without a price, by now or for this endpoint, is refused with the remedy', async (t) => {
  const hooks = await pluginWith([{ from: 1_790_000_000_001, price: perToken }])
  const refusal = (running: Running, own = hooks): GatewayError => {
    try {
      void own.onRequest!(running as never)
    } catch (error) {
      return error as GatewayError
    }
    throw new Error('It was let through.')
  }
  const early = refusal(asking(undefined, chat, {}))
  t.equal(early.code, 'price_missing')
  t.equal(early.message, 'The model `demo` has no price, so it cannot be used.')
  t.same(early.details.reason, {
    by: 'price',
    what: 'the model demo has no price',
    where: 'models.demo.price',
    remedy: 'add it there, or say price: free'
  })
  const late = asking(undefined, chat, {}, { receivedAt: 1_790_000_000_001 })
  t.doesNotThrow(() => hooks.onRequest!(late as never))
  const long = refusal(asking(undefined, chat, {}, { model: 'm'.repeat(200) }))
  t.equal(long.message, `The model \`${'m'.repeat(128)}\` has no price, so it cannot be used.`)
  const pictures = await pluginWith(always(priceOf({ image: one })))
  t.match(refusal(asking(undefined, chat, {}), pictures).message, 'has no price for what this endpoint counts')
  t.equal(hooks.onRequest!(asking(undefined, undefined, {}) as never), undefined, 'a list of models costs nothing')

  const tools = { ...chat, tools: responsesTools }
  const search = { tools: [{ type: 'web_search' }] }
  const dear = await pluginWith(always(perToken))
  t.match(refusal(asking(undefined, tools, search), dear).message, 'no price for web_search, which the request offers')
  const free = await pluginWith(always(priceOf({})))
  const running = asking(undefined, tools, search)
  free.onRequest!(running as never)
  t.match(running.find(offeredTools), { fees: ['web_search'] })
})

t.test('an upstream is told a limit of calls where a budget depends on it, and nobody gave one', async (t) => {
  const price = priceOf({ input: one, output: one, web_search: one })
  const tools = { ...chat, tools: responsesTools }
  const search = { tools: [{ type: 'web_search' }], max_tokens: 1 }
  const sent = async (
    limit: bigint | undefined,
    body: object,
    attempt: object = {},
    metering = tools
  ): Promise<unknown> => {
    const hooks = await pluginWith(always(price), { tool_calls: 3, model: { contextWindow: 10 } })
    const running = asking(limit, metering, body)
    hooks.onRequest!(running as never)
    const edit = new BodyEdit(running.body)
    const asked: string[] = []
    const mayAdd = (name: string): boolean => asked.push(name) > 0
    hooks.onAttempt!(running as never, { channel: { name: 'a', traits: {} }, body: edit, mayAdd, ...attempt } as never)
    return [edit.json('max_tool_calls'), ...asked]
  }
  const enough = 1000n
  t.same(await sent(enough, search), [3, 'max_tool_calls'])
  t.same(await sent(undefined, search), [undefined], 'no budget')
  t.same(await sent(enough, { ...search, max_tool_calls: 2 }), [2], 'the client gave one')
  t.same(await sent(enough, { max_tokens: 1 }), [undefined], 'no tools')
  t.same(await sent(enough, search, { translated: true }), [undefined], 'a translated request has none')
  t.same(await sent(enough, search, { mayAdd: () => false }), [undefined], 'the channel does not know it')
  const { limit: _limit, ...without } = responsesTools
  t.same(
    await sent(enough, search, {}, { ...chat, tools: without as never }),
    [undefined],
    'the protocol has no limits'
  )
})

t.test('a request is told what it may have where a budget has less, or where nothing limits it', async (t) => {
  const size = (body: object): bigint => BigInt(Buffer.byteLength(JSON.stringify(body)))
  const room = async (body: object, output: bigint | undefined, setting: Setting & { model?: object } = {}) => {
    const hooks = await pluginWith(always(perToken), setting)
    const headers: Record<string, unknown> = {}
    const setHeader = (name: string, value: unknown): void => void (headers[name] = value)
    const limit = output === undefined ? undefined : size(body) + 2n * output
    const running = asking(limit, chat, body, { setHeader })
    try {
      hooks.onRequest!(running as never)
    } catch (error) {
      return (error as GatewayError).code
    }
    return headers['X-Sluice-Max-Output']
  }
  const ten = { max_tokens: 10 }
  t.equal(await room(ten, 10n), undefined)
  t.equal(await room(ten, 9n), 'quota_key_exceeded')
  t.equal(await room(ten, 10n, { clamp_output: true }), undefined)
  t.equal(await room(ten, 9n, { clamp_output: true }), 9)
  t.equal(await room(ten, 1n, { clamp_output: true }), 1)
  t.equal(await room(ten, 0n, { clamp_output: true }), 'quota_key_exceeded')
  t.equal(await room({}, 20n, { default_output: 20 }), 20, 'nothing else limits it')
  t.equal(await room({}, undefined, { default_output: 20 }), undefined, 'without a budget nothing has to')
  t.equal(await room({}, 19n, { default_output: 20 }), 'quota_key_exceeded')
  const model = { maxOutputTokens: 30 }
  t.equal(await room({}, 30n, { default_output: 20, model }), undefined, 'the model limits it')
  t.equal(await room({}, 29n, { default_output: 20, model }), 29)
  t.equal(await room({}, 20n, { default_output: 20, model }), 20)
  t.equal(await room({}, 19n, { default_output: 20, model }), 'quota_key_exceeded', 'no fewer than the default')
  t.equal(await room({}, 29n, { default_output: 40, model }), 'quota_key_exceeded', 'nor than the model has')
  t.equal(await room({}, 19n, { default_output: 20, model, clamp_output: true }), 19)
})

t.test('a limit is lowered where the client gave it, or put where the upstream looks for one', async (t) => {
  const sent = async (body: object, outputLimits: string[], attempt: object = {}): Promise<unknown> => {
    const hooks = await pluginWith(always(priceOf({ output: one })), { clamp_output: true, default_output: 9 })
    const running = asking(5n, { outputLimits }, body, { setHeader() {} })
    hooks.onRequest!(running as never)
    const edit = new BodyEdit(running.body)
    hooks.onAttempt!(running as never, { channel: { name: 'a', traits: {} }, body: edit, ...attempt } as never)
    return Object.fromEntries(
      [...new Set([...Object.keys(body), ...outputLimits.map((one) => one.split('.')[0]!)])].map((name) => [
        name,
        edit.json(name)
      ])
    )
  }
  const [long, short] = chat.outputLimits as [string, string]
  t.same(await sent({ [short]: 8 }, [long, short]), { [short]: 5, [long]: undefined })
  t.same(await sent({ [short]: 8, [long]: 3 }, [long, short]), { [short]: 5, [long]: 3 })
  t.same(await sent({}, [long, short]), { [short]: undefined, [long]: 5 }, 'the usual one')
  const old = { channel: { name: 'a', traits: { maxTokensMember: short } } }
  t.same(await sent({}, [long, short], old), { [short]: 5, [long]: undefined }, 'the one that the upstream knows')
  t.same(await sent({}, [long, short], { ...old, translated: true }), { [short]: undefined, [long]: 5 })
  const inside = ['config.max', 'config.most', 'settings.max']
  t.same(await sent({ config: { max: 8, k: 1 } }, inside), { config: { max: 5, k: 1 }, settings: undefined })
  t.same(await sent({ config: { max: '8', most: 2 } }, inside), { config: { max: 5, most: 2 }, settings: undefined })
  t.same(await sent({ config: { max: 8, most: 7 } }, inside), { config: { max: 5, most: 5 }, settings: undefined })
  t.same(await sent({ settings: { k: 1 } }, inside), { config: undefined, settings: { k: 1, max: 5 } }, 'beside others')
  t.same(await sent({}, inside), { config: { max: 5 }, settings: undefined })
  t.same(await sent({ [short]: 4 }, [long, short]), { [short]: 4, [long]: undefined }, 'it fits')
})

t.test(
  'a hold is told of its attempts and of what was delivered, and ends with its exchange unless work goes on',
  async (t) => {
    for (const abandoned of ['prompt', 'nothing'] as const)
      for (const goes of [false, true]) {
        const ledger = new TestLedger()
        const hooks = await pluginWith(always(perToken), { ledger, abandoned })
        const running = asking(undefined, chat, { max_tokens: 5 })
        hooks.onRequest!(running as never)
        const row = ledger.rows[0]!
        t.match(row.request, { requestId: 'r1', streamed: false, endpoint: 'speech', clientProtocol: 'openai-speech' })
        hooks.onAttempt!(running as never, { channel: { name: 'b' } } as never)
        t.same(row.dispatched, ['b'])
        t.equal(await running.waits[0]!(), undefined)
        t.equal(running.find(reservation).amount, row.request.amount)
        t.equal(hooks.onResponse!(running as never, { streaming: false } as never), undefined)
        const stage = hooks.onResponse!(running as never, { streaming: true } as never) as { observe(): void }
        const told = Array.from({ length: 130 }, () => (stage.observe(), row.delivered))
        t.same(
          told,
          told.map((_, at) => at + 1 - ((at + 1) % 64))
        )
        t.same(running.find(prompt)(), { usage: promptUsage(running as never, perToken), due: abandoned === 'prompt' })
        t.equal(running.find(spent)(), undefined)
        if (goes) running.set(goingOn, {})
        running.attempts.push(attemptOf({ usage: used(1, 1) }))
        await running.ends[0]!({ kind: 'completed', bytes: 3 })
        t.equal(row.settled?.amount, goes ? undefined : 3n)
        t.equal(ledger.open.length, goes ? 1 : 0)
      }
    const hooks = await pluginWith(always(perToken))
    t.equal(hooks.onResponse!(asking(undefined, chat, {}) as never, { streaming: true } as never), undefined)
  }
)

t.test('an open session is held to the budgets that its key has by now', async (t) => {
  const ledger = new TestLedger()
  const hooks = await pluginWith(always(perToken), { ledger, default_output: 7 })
  const running = asking(undefined, { ...chat, turns: true }, {})
  running.attempts.push(attemptOf({}))
  hooks.onTurn!(running as never, new Turning('0') as never)
  t.same(ledger.rows, [], 'it is not opened')
  hooks.onRequest!(running as never)
  const { scopes } = running.find(caller)
  hooks.whileOpen!(running as never)
  t.same(running.find(billed).scopes, [...scopes, 'now'])
  running.find(billed).scopes = scopes
  const turn = new Turning('1', { maxOutput: undefined as never })
  hooks.onTurn!(running as never, turn as never)
  t.equal(ledger.rows[1]!.request.amount, 50n + 14n)
  t.doesNotThrow(() => hooks.whileOpen!(new Running() as never))
})
