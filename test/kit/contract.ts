// The test of everything that a plugin must do for the core. A plugin's own test needs one line for it.
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import { definePlugin, GatewayError } from '../../core/contract/contract.ts'
import type { Plugin } from '../../core/contract/contract.ts'
import { checkerOf } from '../../core/options/schema-check.ts'
import { eventually } from './probe.ts'
import { bytes, endOfBody, events, head, reset, stall, Upstream } from './upstream.ts'
import { channelTo, chatAnswer, chatEvents, defaultChain, key, Workbench } from './workbench.ts'
import type { Answer, Sections } from './workbench.ts'

/** Facts about the plugin under test. */
export interface Particulars {
  /** Valid options. The plugin runs with the first of them, or with none at all. */
  accepts?: readonly object[]
  /** Invalid options, each with the message that they must cause. */
  refuses?: readonly (readonly [options: object, problem: RegExp])[]
  /** The plugins that fill the slots it needs, when these are not in plugins/index.ts. */
  above?: readonly Plugin[]
  /** Text of an answer that the plugin acts on, for plugins that read text. */
  text?: string
}

/** A plugin below the one under test, which refuses when the request asks for that. */
const refuser = definePlugin({
  name: 'refuser',
  summary: 'Refuses what asks to be refused.',
  options: {},
  setup: () => ({
    onRequest(exchange) {
      if ('x-refuse' in exchange.request.headers) throw new GatewayError('content_blocked', 'As asked.')
    }
  })
})

/**
 * Checks a plugin's options, and that it gives back what it took however an exchange ends: each kind of end is caused
 * several times with a key that may have one request at a time, and then a request must pass. What the plugin makes of
 * an answer must not depend on the pieces in which the answer comes, nor on the client's protocol. Operations other
 * than conversations must not make it fail.
 */
export function pluginContract(
  t: Test,
  plugin: Plugin,
  { accepts = [], refuses = [], above = [], text = 'Hello, wörld: 42!' }: Particulars = {}
): void {
  void t.test(`${plugin.name}: options are documented and checked`, (t) => {
    const check = checkerOf(plugin.options, plugin.required)
    t.match(plugin.name, /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/, 'the name is kebab-case')
    t.match(plugin.summary, /^[A-Z].*\.$/s, 'the summary is a sentence')
    for (const [name, option] of Object.entries(plugin.options)) {
      t.match(name, /^[a-z][a-z0-9_]*$/, `${name} is snake_case`)
      t.match(option.description, /^[A-Z`].*\.$/s, `${name} has a description that is a sentence`)
    }
    if (plugin.required.length === 0) t.same(check({}).faults, [], 'nothing has to be given')
    for (const options of accepts) t.same(check(options).faults, [], `accepts ${JSON.stringify(options)}`)
    t.match(check({ ...accepts[0], 'no-such-option': 1 }).faults, [
      { pointer: '/no-such-option', message: /unknown key/ }
    ])
    for (const [options, problem] of refuses) {
      t.match(
        check(options)
          .faults.map(({ message }) => message)
          .join('; '),
        problem,
        `refuses ${JSON.stringify(options)}`
      )
    }
    t.end()
  })

  void t.test(`${plugin.name}: whatever it takes it gives back, however an exchange ends`, async (t) => {
    const upstream = await Upstream.start(t)
    const bench = await open(t, upstream, plugin, accepts[0] ?? {}, above)
    const passes = async (after: string): Promise<boolean> => {
      for (const stream of [false, true]) {
        if (stream) upstream.sse(chatEvents())
        else upstream.json(chatAnswer())
        const answer = await bench.send({ body: { stream } })
        t.equal(answer.status, 200, `a ${stream ? 'streamed' : 'plain'} request passes ${after}`)
        t.ok(answer.complete, 'and its answer is complete')
        t.equal(answer.outcome.kind, 'completed')
        for (const slot of plugin.provides)
          t.not(answer.exchange.find(slot), undefined, `the slot ${slot.name} is filled`)
        if (!answer.complete || answer.status !== 200) return false
      }
      return true
    }
    if (!(await passes('at first'))) return
    for (const [how, way] of Object.entries(ways)) {
      for (let i = 0; i < 3; i++) {
        const answer = await way(bench, upstream)
        t.not(answer.outcome.kind, 'completed', how)
        t.not(answer.outcome.error?.code, 'internal_error', how)
      }
      // After a failure, further checks would only repeat it, because the upstream's scripts are for requests that
      // arrive.
      if (!(await passes(`after ${how}`))) return
    }
    t.same(bench.ledger.open, [], 'no reservation is left open')
    t.equal(bench.running, 0, 'no exchange is left running')
    const complaints = bench.log.filter(
      ({ level, fields }) => level === 'error' && fields['plugin'] === plugin.name && 'error' in fields
    )
    t.same(complaints, [], 'no hook failed')
  })

  void t.test(`${plugin.name}: an answer is what it is, in whatever pieces and protocol it comes`, async (t) => {
    const upstream = await Upstream.start(t)
    const bench = await open(t, upstream, plugin, accepts[0] ?? {}, above)
    upstream.json(answerOf(text))
    const expected = saidIn(await bench.send({ body: { messages: asked(0) } }))
    const middle = Math.floor(text.length / 2)
    const ways = [
      [text],
      [...text],
      ...Array.from({ length: Math.min(text.length - 1, 24) }, (_, at) => [text.slice(0, at + 1), text.slice(at + 1)]),
      [text.slice(0, middle), '', text.slice(middle)]
    ]
    for (const [number, pieces] of ways.entries()) {
      upstream.sse(eventsOf(pieces))
      const streamed = await bench.send({ body: { messages: asked(number + 1), stream: true } })
      t.equal(saidIn(streamed), expected, `in a stream of ${JSON.stringify(pieces)}`)
    }
    for (const stream of [false, true]) {
      if (stream) upstream.sse(eventsOf([...text]))
      else upstream.json(answerOf(text))
      const answer = await bench.send({
        target: '/v1/messages',
        body: { messages: asked(ways.length + 1), max_tokens: 50, stream }
      })
      t.equal(saidIn(answer), expected, `to a client of another protocol, ${stream ? 'streamed' : 'whole'}`)
    }
  })

  void t.test(`${plugin.name}: operations that are no conversations do not break it`, async (t) => {
    const upstream = await Upstream.start(t)
    const bench = await open(t, upstream, plugin, accepts[0] ?? {}, above)
    t.equal((await bench.send({ method: 'GET', target: '/v1/models' })).status, 200, 'the list of models')
    for (const { target, body, script } of others) {
      script(upstream)
      const { status, outcome } = await bench.send({ target, body: { messages: undefined, ...body } })
      // A plugin may refuse an answer that it cannot inspect.
      t.ok(
        status < 500 || outcome.error?.code === 'answer_not_inspected',
        `${target} is answered ${status} ${outcome.error?.code ?? ''}`
      )
    }
    const failed = bench.log.filter(
      ({ level, fields }) =>
        level === 'error' && fields['plugin'] === plugin.name && !String(fields['error']).includes('takes text')
    )
    t.same(failed, [], 'no hook failed')
    t.same(bench.ledger.open, [], 'no reservation is left open')
  })

  void t.test(`${plugin.name}: a generation leaves nothing behind`, async (t) => {
    const upstream = await Upstream.start(t)
    const before = handles().length
    const bench = await open(t, upstream, plugin, accepts[0] ?? {}, above)
    for (let i = 0; i < 3; i++) await bench.reload(sections(upstream, plugin, accepts[0] ?? {}, above))
    upstream.json(chatAnswer())
    t.equal((await bench.send()).status, 200)
    await bench.close()
    // Timers and files that last longer were left behind by the plugin.
    await eventually(() => handles().length <= before, 1000)
    t.pass('no timer and no file is left')
  })
}

/** The ways in which an exchange can end without a complete answer. */
const ways: Readonly<Record<string, (bench: Workbench, upstream: Upstream) => Promise<Answer>>> = {
  'a refusal below it': (bench) => bench.send({ headers: { 'x-refuse': 'yes' } }),
  'a body that cannot be read': (bench) => bench.send({ body: '{' }),
  'a body that never ends': async (bench) => {
    const { client, answer } = bench.start({ body: new Readable({ read() {} }) })
    await turn()
    client.leave()
    return answer
  },
  'a refusal by the upstream': (bench, upstream) => {
    upstream.json({ error: { message: 'no', type: 'invalid_request_error', code: 'bad' } }, { status: 400 })
    return bench.send()
  },
  'a failure of the upstream': (bench, upstream) => {
    upstream.json({ error: { message: 'broken' } }, { status: 500 })
    return bench.send()
  },
  'a connection that breaks': (bench, upstream) => {
    upstream.script(reset())
    return bench.send()
  },
  'a stream that is cut': (bench, upstream) => {
    upstream.script(head(200, { 'content-type': 'text/event-stream' }), events(chatEvents().slice(0, 3)), endOfBody())
    return bench.send({ body: { stream: true } })
  },
  'a client that leaves before the answer': async (bench, upstream) => {
    const seen = upstream.requests.length
    upstream.script(stall())
    const { client, answer } = bench.start()
    await Promise.race([upstream.request(seen), answer])
    client.leave()
    return answer
  },
  'a client that leaves in the middle of a stream': async (bench, upstream) => {
    upstream.script(
      head(200, { 'content-type': 'text/event-stream' }),
      events(chatEvents().slice(0, 3)),
      bytes(': more to come\n\n'),
      stall()
    )
    const { client, answer } = bench.start({ body: { stream: true } })
    await Promise.race([client.began, answer])
    client.leave()
    return answer
  }
}

/** A different request for each number, because a plugin may recognize a repeated one. */
const asked = (number: number): unknown => [{ role: 'user', content: `Question ${number}` }]

function answerOf(text: string): object {
  return {
    ...chatAnswer(),
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }]
  }
}

function eventsOf(pieces: readonly string[]): object[] {
  const chunk = (delta: object, finish: string | null = null): object => ({
    ...chatEvents()[0],
    choices: [{ index: 0, delta, finish_reason: finish }]
  })
  return [chunk({ role: 'assistant', content: '' }), ...pieces.map((content) => chunk({ content })), chunk({}, 'stop')]
}

/** The text that a client of either protocol reads. For an answer that was refused or cut, it says so. */
function saidIn({ body, complete, outcome }: Answer): string {
  if (outcome.kind !== 'completed') return `no answer: ${outcome.error?.code}`
  if (!complete) return 'an answer that was cut'
  const bodies = body.startsWith('{')
    ? [body]
    : body.split('\n').flatMap((line) => {
        const data = /^data: ?(.*)/.exec(line)?.[1]
        return data === undefined || data === '[DONE]' ? [] : [data]
      })
  return bodies
    .map((json) => {
      const { choices, content, delta } = JSON.parse(json)
      return choices?.[0]?.message?.content ?? choices?.[0]?.delta?.content ?? content?.[0]?.text ?? delta?.text ?? ''
    })
    .join('')
}

/** Requests with every kind of body and answer that conversations do not have. */
const others: readonly { target: string; body: object; script(upstream: Upstream): void }[] = [
  {
    target: '/v1/embeddings',
    body: { input: 'one' },
    script: (upstream) =>
      upstream.json({
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
        model: 'demo',
        usage: { prompt_tokens: 1, total_tokens: 1 }
      })
  },
  {
    target: '/v1/moderations',
    body: { input: 'one' },
    script: (upstream) =>
      upstream.json({ id: 'modr-1', model: 'demo', results: [{ flagged: false, categories: {}, category_scores: {} }] })
  },
  {
    target: '/v1/images/generations',
    body: { prompt: 'one' },
    script: (upstream) => upstream.json({ created: 1, data: [{ b64_json: 'aGk=' }] })
  },
  {
    target: '/v1/audio/speech',
    body: { input: 'one', voice: 'alloy' },
    script: (upstream) =>
      upstream.script(head(200, { 'content-type': 'audio/mpeg', 'content-length': '3' }), bytes('ID3'))
  }
]

function open(
  t: Test,
  upstream: Upstream,
  plugin: Plugin,
  options: object,
  above: readonly Plugin[]
): Promise<Workbench> {
  return Workbench.open(t, sections(upstream, plugin, options, above), { more: [...above, plugin, refuser] })
}

/** The default chain with the plugin in its place, or above `route` when the default chain does not have it. */
function sections(upstream: Upstream, plugin: Plugin, options: object, above: readonly Plugin[]): Sections {
  const entry = { [plugin.name]: options }
  const chain = defaultChain.flatMap((one): object[] => {
    if (plugin.name in one) return [entry]
    return 'route' in one && !defaultChain.some((other) => plugin.name in other)
      ? [...above.map(({ name }) => ({ [name]: {} })), entry, one]
      : [one]
  })
  return {
    channels: { a: channelTo(upstream, { endpoints: ['chat', 'embeddings', 'moderations', 'images', 'audio'] }) },
    keys: [key({ limits: { concurrency: 1 } })],
    chain: [...chain, 'refuser']
  }
}

/** The timers and files of this test that keep the process alive. */
function handles(): string[] {
  return process.getActiveResourcesInfo().filter((name) => name === 'Timeout' || name.startsWith('FS'))
}
