// What the contract promises to plugins, in the real engine: the order of an answer's end, bodies that a stage cannot
// see, releases and stages that fail, hooks that live as long as they are used, and set-ups that take their time.
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { Readable } from 'node:stream'
import t from 'tap'
import { definePlugin, GatewayError } from '../../core/contract/contract.ts'
import type { Hooks, Plugin, Stage } from '../../core/contract/contract.ts'
import { Message } from '../../core/contract/message.ts'
import { plugins } from '../../plugins/index.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import { askHttp2, openSession } from '../kit/http2.ts'
import { eventually } from '../kit/probe.ts'
import { readEvents } from '../kit/sse.ts'
import { endOfBody, events, head, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, chatEvents, defaultChain, Workbench } from '../kit/workbench.ts'
import type { Sections } from '../kit/workbench.ts'

/** A plugin without options. */
function plugin(name: string, setup: () => Hooks | Promise<Hooks>): Plugin {
  return definePlugin({ name, summary: 'For a test.', options: {}, setup })
}

/** The plugin above `route`, or above `auth`. */
function sections(upstream: Upstream, names: readonly string[], above = 'route'): Sections {
  const chain = defaultChain.flatMap((entry): (object | string)[] => (above in entry ? [...names, entry] : [entry]))
  return { channels: { a: channelTo(upstream) }, chain }
}

/** An answer's stage as a plugin. */
function staged(name: string, stage: () => Stage): Plugin {
  return plugin(name, () => ({ onResponse: () => stage() }))
}

const delta = (content: string): string =>
  JSON.stringify({
    id: 'x',
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta: { content }, finish_reason: null }]
  })

t.test('what the end of a stage emits goes through the stages above it and comes before the end marker', async (t) => {
  const upstream = await Upstream.start(t)
  const seen: string[] = []
  let ended = 0
  const lower = staged('lower', () => ({
    map: (message, emit) => emit(message),
    end: (complete, emit) => emit(Message.event(delta(`lower ${complete}`)))
  }))
  const upper = staged('upper', () => ({
    observe: (message) => void seen.push(message.data.toString()),
    end: () => void ended++
  }))
  const bench = await Workbench.open(t, sections(upstream, ['upper', 'lower']), { more: [lower, upper] })
  for (const marked of [true, false]) {
    seen.length = 0
    const list = chatEvents()
    if (marked) upstream.sse(list)
    else upstream.script(head(200, { 'content-type': 'text/event-stream' }), events(list), endOfBody())
    const answer = await bench.send({ body: { stream: true } })
    t.equal(answer.outcome.kind, 'completed')
    const read = readEvents(answer.body).map(({ data }) => data)
    t.equal(read.at(-1), '[DONE]', marked ? 'with an end marker' : 'without one')
    t.equal(read.at(-2), delta('lower true'))
    t.equal(read.filter((data) => data === '[DONE]').length, 1)
    t.strictSame(
      seen.slice(-2),
      [delta('lower true'), '[DONE]'],
      'the stage above saw what the end emitted, and the end marker last'
    )
    t.equal(answer.outcome.bytes, Buffer.byteLength(answer.body))
  }
  t.equal(ended, 2)
})

t.test('an answer that ends too early has no end marker, and nothing that its end emits is shown', async (t) => {
  const upstream = await Upstream.start(t)
  const ends: boolean[] = []
  const stage = staged('stage', () => ({
    map: (message, emit) => emit(message),
    end(complete, emit) {
      ends.push(complete)
      emit(Message.event(delta('late')))
    }
  }))
  const bench = await Workbench.open(t, sections(upstream, ['stage']), { more: [stage] })
  upstream.script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents().slice(0, 3)), endOfBody())
  const answer = await bench.send({ body: { stream: true } })
  t.notMatch(answer.body, 'late')
  t.notMatch(answer.body, '[DONE]')
  t.match(answer.body, 'upstream_stream_interrupted')
  t.strictSame(ends, [false])
})

t.test(
  'a whole answer that a stage keeps to its end is sent then; none or two of it is a bug with the name of the plugin',
  async (t) => {
    const upstream = await Upstream.start(t)
    let times = 1
    const stage = staged('keeper', () => {
      let kept: Message | undefined
      return {
        map: (message) => void (kept = message),
        end(_complete, emit) {
          for (let i = 0; i < times; i++) emit(kept!)
        }
      }
    })
    const bench = await Workbench.open(t, sections(upstream, ['keeper']), { more: [stage] })
    upstream.json(chatAnswer())
    const answer = await bench.send()
    t.same(JSON.parse(answer.body), chatAnswer())
    for (times of [0, 2]) {
      upstream.json(chatAnswer())
      const broken = await bench.send()
      t.match([broken.status, JSON.parse(broken.body).error.code], [500, 'internal_error'])
    }
  }
)

t.test('a stage is told of its end once, also when it came too late or another one did not come', async (t) => {
  const upstream = await Upstream.start(t)
  const ends: string[] = []
  const observer = (name: string): Stage => ({
    observe: () => {},
    end: (complete: boolean) => void ends.push(`${name} ${complete}`)
  })
  let come = (): void => {}
  let asked = (): void => {}
  const lower = staged('lower', () => observer('lower'))
  const late = plugin('late', () => ({
    onResponse: () => (asked(), new Promise<Stage>((resolve) => (come = () => resolve(observer('late')))))
  }))
  const broken = plugin('broken', () => ({
    onResponse: () => {
      throw new GatewayError('content_blocked', 'No.')
    }
  }))
  const refusing = plugin('refusing', () => ({
    onResponse: () => Promise.reject(new GatewayError('content_blocked', 'No.'))
  }))
  const bench = await Workbench.open(t, sections(upstream, ['late', 'lower']), {
    more: [lower, late, broken, refusing]
  })
  upstream.sse(chatEvents())
  const waits = new Promise<void>((resolve) => (asked = resolve))
  const { client, answer } = bench.start({ body: { stream: true } })
  await waits
  client.leave()
  t.match((await answer).outcome, { kind: 'aborted' })
  come()
  await eventually(() => ends.length > 0)
  t.same(ends.sort(), ['late false', 'lower false'])
  for (const name of ['broken', 'refusing']) {
    ends.length = 0
    await bench.reload(sections(upstream, [name, 'lower']))
    upstream.sse(chatEvents())
    t.equal((await bench.send({ body: { stream: true } })).status, 403)
    t.same(ends, ['lower false'], name)
  }
  ends.length = 0
  const blind = staged('blind', () => ({ ...observer('blind'), takes: 'messages' }))
  const sound = plugin('sound', () => ({
    onRequest: () => ({ status: 200, headers: [['content-type', 'audio/wav']], body: Buffer.from('RIFF') })
  }))
  const own = await Workbench.open(t, sections(upstream, ['blind', 'sound']), { more: [blind, sound] })
  t.equal((await own.send()).status, 502)
  t.same(ends, ['blind false'], 'of an answer of our own')
})

t.test('what a stage cannot see is refused, unless it says that it takes runs of bytes', async (t) => {
  const upstream = await Upstream.start(t)
  const kinds: string[] = []
  const whole = staged('whole', () => ({ map: (message, emit) => (kinds.push(message.kind), emit(message)) }))
  const runs = staged('runs', () => ({
    takes: 'runs',
    map: (message, emit) => (kinds.push(message.kind), emit(message))
  }))
  const observer = staged('observer', () => ({ observe: (message) => void kinds.push(message.kind) }))
  const strict = staged('strict', () => ({ takes: 'messages', observe: (message) => void kinds.push(message.kind) }))
  const bench = await Workbench.open(t, sections(upstream, ['whole']), { more: [whole, runs, observer, strict] })
  const answerOf = (size: number): object => ({ ...chatAnswer(), padding: 'x'.repeat(size) })
  const ask = async (
    name: string,
    size: number
  ): Promise<{ status: number; code: string | undefined; length: number }> => {
    await bench.reload(sections(upstream, [name]))
    kinds.length = 0
    upstream.json(answerOf(size))
    const { status, body } = await bench.send()
    return { status, code: status === 200 ? undefined : JSON.parse(body).error.code, length: body.length }
  }
  const [kilo, mega] = [1024, 1024 * 1024]
  for (const name of ['whole', 'strict']) {
    t.match(await ask(name, kilo), { status: 200 })
    t.match(await ask(name, mega), { status: 200 }, 'what is larger than usual is held for it')
    t.strictSame(kinds, ['json'])
    t.match(await ask(name, 9 * mega), { status: 502, code: 'answer_not_inspected' }, 'what is too large is refused')
    t.strictSame(kinds, [])
    t.ok(
      bench.log.some(({ fields }) => String(fields['error']).includes(`the plugin ${name} takes whole messages`)),
      'and the log says for whom'
    )
  }
  for (const name of ['runs', 'observer']) {
    t.match(await ask(name, 9 * mega), { status: 200, length: JSON.stringify(answerOf(9 * mega)).length })
    t.ok(kinds.length > 1 && kinds.every((kind) => kind === 'bytes'))
  }
})

t.test('a stage that fails is named, in a stream and in a whole answer, wherever it fails', async (t) => {
  const upstream = await Upstream.start(t)
  let where = ''
  const bad = (): never => {
    throw new TypeError('a mistake')
  }
  const broken = staged(
    'broken',
    () =>
      ({
        map: (message, emit) => (where === 'map' ? bad() : emit(message)),
        end: () => where === 'end' && bad()
      }) as Stage
  )
  const watch = staged('watch', () => ({ observe: () => where === 'observe' && bad() }) as Stage)
  const bench = await Workbench.open(t, sections(upstream, ['watch', 'broken']), { more: [broken, watch] })
  for (where of ['map', 'end', 'observe']) {
    for (const stream of [false, true]) {
      bench.log.length = 0
      if (stream) upstream.sse(chatEvents())
      else upstream.json(chatAnswer())
      const answer = await bench.send({ body: { stream } })
      t.match(answer.body, 'internal_error')
      t.notMatch(answer.body, '[DONE]')
      const plugin = where === 'observe' ? 'watch' : 'broken'
      t.ok(
        bench.log.some(
          ({ level, fields }) => level === 'error' && String(fields['error']).includes(`in the plugin ${plugin}`)
        ),
        `${plugin} is named when it fails in ${where}`
      )
    }
  }
})

t.test(
  'a release that fails by mistake leaves a good answer alone and is logged with the name of its plugin',
  async (t) => {
    const upstream = await Upstream.start(t)
    let release: () => void | Promise<void> = () => {}
    let other = 0
    const one = plugin('one', () => ({ onRequest: (exchange) => exchange.defer(() => release()) }))
    const two = plugin('two', () => ({ onRequest: (exchange) => exchange.defer(() => void other++) }))
    const bench = await Workbench.open(t, sections(upstream, ['two', 'one']), { more: [one, two] })
    const ways: Record<string, () => void | Promise<void>> = {
      thrown: () => {
        throw new TypeError('a mistake')
      },
      rejected: () => Promise.reject(new TypeError('a mistake')),
      later: async () => {
        await turn()
        throw new TypeError('a mistake')
      }
    }
    for (const [how, way] of Object.entries(ways)) {
      release = way
      for (const stream of [false, true]) {
        bench.log.length = 0
        if (stream) upstream.sse(chatEvents())
        else upstream.json(chatAnswer())
        const before = other
        const answer = await bench.send({ body: { stream } })
        t.match([answer.status, answer.complete, answer.outcome.kind], [200, true, 'completed'], how)
        if (stream) t.match(answer.body, '[DONE]')
        t.equal(other, before + 1, 'the other release has run')
        t.ok(
          bench.log.some(
            ({ level, fields }) =>
              level === 'error' && fields['plugin'] === 'one' && String(fields['error']).includes('a mistake')
          )
        )
      }
    }
    release = () => {
      throw new GatewayError('billing_unavailable', 'On purpose.')
    }
    upstream.json(chatAnswer())
    const refused = await bench.send()
    t.match(
      [refused.status, JSON.parse(refused.body).error],
      [503, { code: 'billing_unavailable', message: 'On purpose.' }],
      'a GatewayError is thrown on purpose, and is the answer'
    )
  }
)

t.test('what a plugin does later bears its own name, whichever plugin runs by then', async (t) => {
  const upstream = await Upstream.start(t)
  const early = plugin('early', () => ({
    // Not waited for: it goes on while the plugins below are asked.
    onRequest: (exchange) => {
      void turn().then(() => {
        exchange.log.error('said later')
        exchange.defer(() => {
          throw new TypeError('given back later')
        })
      })
    }
  }))
  const late = plugin('late', () => ({ onRequest: async () => void (await sleep(20)) }))
  const bench = await Workbench.open(t, sections(upstream, ['early', 'late']), { more: [early, late] })
  upstream.json(chatAnswer())
  await bench.send()
  const named = bench.log
    .filter(({ level }) => level === 'error')
    .map(({ message, fields }) => [message, fields['plugin']])
  t.strictSame(named, [
    ['said later', 'early'],
    ['a release failed', 'early']
  ])
})

t.test('a body is read once, however often it is asked for, and what it was refused with is said again', async (t) => {
  const upstream = await Upstream.start(t)
  const lengths: number[] = []
  const codes: string[] = []
  const twice = definePlugin({
    name: 'twice',
    summary: 'For a test.',
    options: {},
    reads: 'head',
    setup: () => ({
      async onRequest(exchange) {
        for (let i = 0; i < 2; i++) {
          const bodies = await Promise.allSettled([0, 1].map(async () => exchange.read()))
          for (const body of bodies)
            if (body.status === 'fulfilled') lengths.push(body.value.bytes.length)
            else codes.push(body.reason.code)
        }
      }
    })
  })
  const chain = ['twice', ...defaultChain]
  const bench = await Workbench.open(t, { channels: { a: channelTo(upstream) }, chain }, { more: [twice] })
  const inPieces = (body: object): Readable => {
    const text = JSON.stringify(body)
    return Readable.from(
      (async function* () {
        yield Buffer.from(text.slice(0, 10))
        await turn()
        yield Buffer.from(text.slice(10))
      })()
    )
  }
  upstream.json(chatAnswer())
  const good = { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
  t.equal((await bench.send({ body: inPieces(good) })).status, 200)
  t.same(lengths.splice(0), Array(4).fill(JSON.stringify(good).length))

  const bad = await bench.send({ body: inPieces({ ...good, MODEL: 'other' }) })
  t.equal(bad.status, 400, 'a plugin that passes over the refusal lets nothing through')
  t.same([lengths, new Set(codes), codes.length], [[], new Set([JSON.parse(bad.body).error.code]), 4])
})

t.test('hooks live as long as an exchange uses them, and one that cannot be disposed stops no other', async (t) => {
  const upstream = await Upstream.start(t)
  const disposed: string[] = []
  const make = (name: string, dispose: () => void | Promise<void>): Plugin =>
    plugin(name, () => ({
      onResponse: () => ({
        observe: () => t.notOk(disposed.includes(name), `${name} is not disposed while its stage works`)
      }),
      async dispose() {
        disposed.push(name)
        await dispose()
      }
    }))
  const sync = plugin('sync', () => ({
    dispose() {
      disposed.push('sync')
      throw new Error('a mistake')
    }
  }))
  const more = [
    make('first', () => {}),
    sync,
    make('rejecting', () => Promise.reject(new Error('a mistake'))),
    make('last', () => {})
  ]
  const names = more.map(({ name }) => name)
  const chain = sections(upstream, names)
  const bench = await Workbench.open(t, { ...chain, limits: { drain_timeout: '1ms' } }, { more })
  let go!: () => void
  const gate = new Promise<void>((resolve) => (go = resolve))
  const list = chatEvents()
  upstream.script(
    head(200, { 'content-type': 'text/event-stream' }),
    events(list.slice(0, 3)),
    () => gate,
    events([...list.slice(3), 'data: [DONE]\n\n']),
    endOfBody()
  )
  const { client, answer } = bench.start({ body: { stream: true } })
  await client.began
  await bench.reload({ ...chain, limits: { drain_timeout: '1ms' } })
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.strictSame(disposed, [], 'however short the drain time is')
  go()
  t.equal((await answer).complete, true)
  await eventually(() => disposed.length === 4)
  t.strictSame(disposed, ['last', 'rejecting', 'sync', 'first'], 'last plugin first, each of them')
  const complaints = () =>
    bench.log.filter(({ message }) => message.includes('disposed')).map(({ fields }) => fields['plugin'])
  await eventually(() => complaints().length === 2)
  t.strictSame(complaints(), ['rejecting', 'sync'], 'and those that failed are named')
})

t.test('a release of a refused request that takes its time keeps its hooks alive, too', async (t) => {
  const upstream = await Upstream.start(t)
  let disposed = false
  let go!: () => void
  const gate = new Promise<void>((resolve) => (go = resolve))
  const slow = plugin('slow', () => ({
    onRequest(exchange) {
      exchange.defer(() => gate)
      throw new GatewayError('content_blocked', 'No.')
    },
    dispose: () => void (disposed = true)
  }))
  const chain = sections(upstream, ['slow'])
  const bench = await Workbench.open(t, chain, { more: [slow] })
  t.equal((await bench.send()).status, 403)
  await bench.reload(chain)
  await turn()
  t.notOk(disposed)
  go()
  await eventually(() => disposed)
  t.pass('and no longer')
})

t.test('a set-up may take its time; what fails in one is named, disposes the others and changes nothing', async (t) => {
  const upstream = await Upstream.start(t)
  let failing: '' | 'before' | 'after' = ''
  const disposed: string[] = []
  const slow = plugin('slow', async () => {
    await turn()
    return { onRequest: (exchange) => exchange.setHeader('x-slow', 'yes'), dispose: () => void disposed.push('slow') }
  })
  const last = plugin('last', async () => {
    if (failing === 'before') throw new Error('no such folder')
    await turn()
    if (failing === 'after') throw new Error('no such folder')
    return {}
  })
  const chain = sections(upstream, ['slow', 'last'])
  const bench = await Workbench.open(t, chain, { more: [slow, last] })
  for (failing of ['before', 'after'] as const) {
    disposed.length = 0
    await t.rejects(bench.reload(chain), /last: no such folder/)
    t.strictSame(disposed, ['slow'])
    upstream.json(chatAnswer())
    const answer = await bench.send()
    t.match([answer.status, answer.headers['x-slow']], [200, 'yes'])
  }
})

t.test('a reply of bytes goes out as these bytes, whatever kind of view they are', async (t) => {
  const upstream = await Upstream.start(t)
  const text = 'ÄÖÜ {"a":1}'
  const bytes = new TextEncoder().encode(`..${text}..`).subarray(2, -2)
  const bodies: unknown[] = [
    bytes,
    Buffer.from(bytes),
    new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    bytes.slice().buffer,
    text
  ]
  let body: unknown
  const bench = await Workbench.open(t, sections(upstream, ['replier']), {
    more: [plugin('replier', () => ({ onRequest: () => ({ status: 200, body }) }))]
  })
  for (body of bodies) t.equal((await bench.send()).body, text, Object.prototype.toString.call(body))
  body = { a: [1] }
  const answer = await bench.send()
  t.match([answer.body, answer.headers['content-type']], ['{"a":[1]}', 'application/json'])
})

t.test('a reply has one type: that which it says, or JSON', async (t) => {
  let headers: [string, string][] = []
  const replier = plugin('replier', () => ({ onRequest: () => ({ status: 200, headers, body: { a: 1 } }) }))
  const looking = staged('looking', () => ({ observe: () => {} }))
  for (const chain of [['replier'], ['looking', 'replier']]) {
    const running = await gateway(
      t,
      { chain: [...chain, { route: {} }] },
      { plugins: new Map([...plugins, ...[replier, looking].map((one): [string, Plugin] => [one.name, one])]) }
    )
    for (const [given, type] of [
      [[], 'application/json'],
      [[['Content-Type', 'application/problem+json']], 'application/problem+json']
    ] as [[string, string][], string][]) {
      headers = given
      const { head, text } = await running.chat()
      t.same(
        [Array.from(head.raw.matchAll(/^content-type: (.*)$/gim), ([, value]) => value), text],
        [[type], '{"a":1}'],
        chain.join()
      )
    }
  }
})

t.test('the headers of a request are those that were sent, and nothing else', async (t) => {
  const teller = plugin('teller', () => ({
    onRequest({ request: { headers } }) {
      const asked = [
        'host',
        'authorization',
        'x-api-key',
        'upgrade',
        'expect',
        'constructor',
        '__proto__',
        'hasOwnProperty',
        'x-mine'
      ]
      return {
        status: 200,
        body: {
          names: Object.keys(headers)
            .filter((name) => !name.startsWith(':') && name !== 'connection')
            .sort(),
          known: asked.filter((name) => name in headers)
        }
      }
    }
  }))
  const running = await gateway(
    t,
    { chain: ['teller', { route: {} }] },
    { plugins: new Map([...plugins, [teller.name, teller]]) }
  )
  const mine = { 'x-mine': '1', constructor: '2' }
  const told = {
    names: ['authorization', 'constructor', 'content-length', 'content-type', 'host', 'x-mine'],
    known: ['host', 'authorization', 'constructor', 'x-mine']
  }
  t.match(
    (await running.ask({ path: '/v1/chat/completions', headers: mine, body: { model: 'demo', messages: [] } })).json(),
    told
  )
  const body = JSON.stringify({ model: 'demo', messages: [] })
  const session = openSession(t, running.url)
  const headers = {
    ':method': 'POST',
    ':path': '/v1/chat/completions',
    authorization: `Bearer ${testKey}`,
    'content-type': 'application/json',
    'content-length': body.length,
    ...mine
  }
  t.match((await askHttp2(session, headers, body)).json(), told)
})
