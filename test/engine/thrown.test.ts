// Plugins, and the libraries that they use, may throw anything: also what JavaScript can make no text of.
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { definePlugin, sharedKey } from '../../core/contract/contract.ts'
import type { Emit, Hooks, Message, Plugin, Stage } from '../../core/contract/contract.ts'
import { GatewayError, reasons } from '../../core/errors.ts'
import { thrownMessage, thrownStack, thrownText } from '../../core/thrown.ts'
import { eventually } from '../kit/probe.ts'
import { events, head, stall, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, defaultChain, Workbench } from '../kit/workbench.ts'
import type { Sections } from '../kit/workbench.ts'

/** Errors whose causes go round, or whose members cannot be read. */
function oddErrors(): Error[] {
  const [one, two] = [new Error('one'), new Error('two')]
  one.cause = two
  two.cause = one
  const unreadable = new Error('unreadable')
  for (const name of ['message', 'stack', 'cause', 'name'])
    Object.defineProperty(unreadable, name, {
      get() {
        throw new Error('it may not be read')
      }
    })
  const textless = Object.assign(new Error('x'), { message: { toString: 0 }, stack: { toString: 0 }, cause: one })
  return [one, unreadable, textless]
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

/** What may be thrown, by a name for messages of the test. */
const thrown: Readonly<Record<string, unknown>> = {
  'an object without a prototype': Object.create(null),
  'an object whose toString is a number': { toString: 0 },
  'a symbol': Symbol('odd'),
  nothing: undefined,
  null: null,
  'an error with a circle of causes': oddErrors()[0],
  'an error whose members cannot be read': oddErrors()[1],
  'an error whose message is no text': oddErrors()[2],
  'an object that can be asked nothing': revoked()
}

t.test('there is a text of whatever is thrown', (t) => {
  for (const [name, what] of Object.entries(thrown))
    for (const text of [thrownText, thrownMessage, thrownStack, reasons])
      t.type(text(what), 'string', `${text.name} of ${name}`)
  t.equal(thrownText({ toString: 0 }), 'a thrown object that has no text')
  t.equal(thrownText('said'), 'said')
  t.equal(thrownMessage(new TypeError('said')), 'said')
  t.match(thrownStack(new TypeError('said')), /^TypeError: said\n +at /)
  t.match(reasons(new Error('above', { cause: new TypeError('below') })), /^above: TypeError: below\n +at /)
  t.match(reasons(new Error('above', { cause: { toString: 0 } })), 'above: a thrown object that has no text')
  t.match(reasons(oddErrors()[0]), /^one: two: one: /)
  t.end()
})

/** A plugin without options. */
function plugin(name: string, hooks: () => Hooks): Plugin {
  return definePlugin({ name, summary: 'For a test.', options: {}, setup: hooks })
}

/** A chain with a plugin `odd` below quota and limits, and one that sees all ends above. */
async function workbench(
  t: Test,
  hooks: (() => Hooks) | Plugin
): Promise<{ bench: Workbench; upstream: Upstream; told: string[] }> {
  const upstream = await Upstream.start(t)
  const told: string[] = []
  const witness = plugin('witness', () => ({
    onRequest: (exchange) => exchange.defer(() => void told.push('released')),
    onSettled: (_, { kind }) => void told.push(kind),
    dispose: () => void told.push('disposed')
  }))
  const chain = defaultChain.flatMap((entry): (object | string)[] =>
    'route' in entry
      ? ['odd', entry]
      : 'auth' in entry
        ? ['witness', entry]
        : 'log' in entry
          ? [entry, 'witness2']
          : [entry]
  )
  const below = plugin('witness2', () => ({ onSettled: (_, { kind }) => void told.push(`${kind} below`) }))
  const sections: Sections = { channels: { a: channelTo(upstream) }, chain }
  const bench = await Workbench.open(t, sections, {
    more: [witness, below, typeof hooks === 'function' ? plugin('odd', hooks) : hooks]
  })
  return { bench, upstream, told }
}

/** That everything was given back and everybody told, and nothing goes on. */
function settled(t: Test, { bench, told }: { bench: Workbench; told: string[] }, kind: string, what: string): void {
  t.strictSame(told.splice(0), ['released', kind, `${kind} below`], `${what}: everybody is told of the end, once`)
  t.strictSame(bench.ledger.open, [], `${what}: no hold is left`)
  t.equal(bench.running, 0, `${what}: nothing goes on`)
}

for (const hook of ['onRequest', 'onCandidates', 'onAttempt', 'onResponse'] as const)
  t.test(`whatever ${hook} throws, the request fails alone, with an error of the gateway`, async (t) => {
    let [what, later]: [unknown, boolean] = [undefined, false]
    const set = await workbench(t, () => ({
      [hook]: () => {
        if (later) return Promise.reject(what)
        throw what
      }
    }))
    for (later of [false, true])
      for (const name of Object.keys(thrown)) {
        what = thrown[name]
        if (hook === 'onResponse') set.upstream.json(chatAnswer())
        const answer = await set.bench.send()
        t.equal(answer.status, 500, name)
        t.equal(JSON.parse(answer.body).error.code, 'internal_error')
        settled(t, set, hook === 'onRequest' || hook === 'onCandidates' ? 'rejected' : 'failed', name)
      }
  })

for (const at of ['observe', 'map', 'end'] as const)
  t.test(`whatever ${at} of a stage throws, the stream ends with an error`, async (t) => {
    let what: unknown
    const set = await workbench(t, () => ({
      onResponse: () => {
        let events = 0
        const third = (): void => {
          if (++events === 3) throw what
        }
        const stage: Stage = {
          observe: () => {},
          end: () => {
            throw what
          }
        }
        return at === 'end' ? stage : at === 'map' ? { map: third } : { observe: third }
      }
    }))
    for (const name of Object.keys(thrown)) {
      what = thrown[name]
      set.upstream.sse(chatEvents())
      const answer = await set.bench.send({ body: { stream: true } })
      t.notMatch(answer.body, '[DONE]')
      t.match(answer.body, 'internal_error', name)
      settled(t, set, 'failed', name)
    }
  })

for (const at of ['onSettled', 'a release', 'a release that is awaited'] as const)
  t.test(`whatever ${at} throws, all others are told and the answer is whole`, async (t) => {
    let what: unknown
    const set = await workbench(t, () => ({
      onRequest: (exchange) =>
        exchange.defer(() => {
          if (at === 'a release') throw what
          return at === 'a release that is awaited' ? Promise.reject(what) : undefined
        }),
      onSettled: () => {
        if (at === 'onSettled') throw what
      }
    }))
    for (const name of Object.keys(thrown)) {
      what = thrown[name]
      set.upstream.json(chatAnswer())
      const answer = await set.bench.send()
      t.equal(answer.status, 200, name)
      t.same(JSON.parse(answer.body), chatAnswer())
      settled(t, set, 'completed', name)
      const [line] = set.bench.log.splice(0).filter(({ level }) => level === 'error')
      t.match(line?.fields, { plugin: 'odd', error: String }, 'the log names the plugin')
    }
  })

t.test('what a hook throws that was written as if it were waited for ends no gateway', async (t) => {
  let what: unknown
  const set = await workbench(t, () => ({
    async onSettled() {
      await turn()
      throw what
    }
  }))
  for (const name of Object.keys(thrown)) {
    what = thrown[name]
    set.upstream.json(chatAnswer())
    t.equal((await set.bench.send()).status, 200, name)
    await eventually(() => set.bench.log.some(({ level }) => level === 'error'))
    const [line] = set.bench.log.splice(0).filter(({ level }) => level === 'error')
    t.match(line, { message: 'a plugin failed when told of the outcome', fields: { plugin: 'odd', error: String } })
    settled(t, set, 'completed', name)
  }
})

t.test('a stage that is asynchronous, or returns what it may not, is a bug of its plugin', async (t) => {
  const late = (): Promise<never> => Promise.reject(new Error('late'))
  const stages = [
    { observe: async () => late() },
    { observe: late },
    { observe: () => {}, end: late },
    { map: late },
    { map: (message: Message, emit: Emit) => emit(message), end: late },
    { text: late },
    { text: () => {}, flush: late },
    { whole: true, text: late },
    { whole: true, text: () => {}, flush: late },
    { text: () => 1 },
    { text: () => {}, flush: () => ({}) }
  ] as unknown as Stage[]
  let stage: Stage | undefined
  const set = await workbench(t, () => ({ onResponse: () => stage }))
  for (const stream of [false, true])
    for (const [place, each] of stages.entries()) {
      stage = each
      if (stream) set.upstream.sse(chatEvents())
      else set.upstream.json(chatAnswer())
      const answer = await set.bench.send({ body: { stream } })
      const what = `stage ${place}${stream ? ' of a stream' : ''}`
      t.match(answer.body, 'internal_error', what)
      t.notMatch(answer.body, '[DONE]', what)
      const [line] = set.bench.log.splice(0).filter(({ level }) => level === 'error')
      t.match(line?.fields['error'], /in the plugin odd: TypeError: a stage (is synchronous|returns a string)/, what)
      settled(t, set, 'failed', what)
    }
  stage = { observe: () => 1 } as unknown as Stage
  set.upstream.sse(chatEvents())
  t.match((await set.bench.send({ body: { stream: true } })).body, '[DONE]', 'a value that nobody reads is no bug')
})

t.test('an onModel that is asynchronous fails its request alone', async (t) => {
  const hooks = { onModel: () => Promise.reject(new Error('late')) } as unknown as Hooks
  const set = await workbench(t, () => hooks)
  t.equal((await set.bench.send()).status, 500)
  t.match(set.bench.log.at(-1)?.fields['error'], /in the plugin odd: TypeError: onModel is synchronous/)
  t.strictSame(set.told, ['rejected', 'rejected below'])
  t.equal(set.bench.running, 0)
})

t.test('a reportHealth that fails, or is asynchronous, is logged, and tells nothing', async (t) => {
  let way = (): never => {
    throw new Error('now')
  }
  const bench = await Workbench.open(
    t,
    { channels: { a: channelTo(await Upstream.start(t)) }, chain: ['odd', ...defaultChain] },
    { more: [plugin('odd', () => ({ reportHealth: () => way() }))] }
  )
  t.strictSame(bench.health(), {})
  way = (() => Promise.reject(new Error('late'))) as unknown as () => never
  t.strictSame(bench.health(), {})
  t.match(
    bench.log.map(({ fields }) => fields['error']),
    [/now/, /reportHealth is synchronous/]
  )
})

t.test('a whileOpen that is asynchronous ends its exchange when it rejects', async (t) => {
  let what: unknown
  const set = await workbench(t, () => ({
    async whileOpen() {
      await turn()
      throw what
    }
  }))
  for (const [reason, code] of [
    [new GatewayError('expired_api_key', 'It has expired.'), 'expired_api_key'],
    [new Error('late'), 'internal_error']
  ] as const) {
    what = reason
    set.upstream.script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents().slice(0, 2)), stall())
    t.match((await set.bench.send({ body: { stream: true } })).body, code)
    settled(t, set, 'failed', code)
  }
})

t.test('whatever is thrown at the end of a generation, the others are disposed', async (t) => {
  const key = sharedKey<number>('kept')
  for (const [name, what] of Object.entries(thrown)) {
    const set = await workbench(t, () => ({ dispose: () => Promise.reject(what) }))
    await set.bench.close()
    t.strictSame(set.told, ['disposed'], name)
    t.match(set.bench.log, [{ level: 'error', message: 'a plugin could not be disposed', fields: { error: String } }])
  }
  for (const [name, what] of Object.entries(thrown)) {
    const kept = definePlugin({
      name: 'odd',
      summary: 'For a test.',
      options: {},
      setup(_, context) {
        context.share(
          key,
          () => 1,
          () => Promise.reject(what)
        )
        return {}
      }
    })
    const set = await workbench(t, kept)
    await set.bench.close()
    t.strictSame(set.told, ['disposed'], name)
    t.match(set.bench.log, [{ level: 'error', fields: { plugin: 'odd', error: String } }])
  }
})

t.test('whatever a plugin throws when it is set up, the reload is refused with the name of the plugin', async (t) => {
  for (const [name, what] of Object.entries(thrown))
    await t.rejects(
      workbench(t, () => {
        throw what
      }),
      { message: /^odd: ./ },
      name
    )
})
