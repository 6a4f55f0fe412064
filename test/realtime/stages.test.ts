// What plugins see of a session, and what they may do to it.
import { once } from 'node:events'
import t from 'tap'
import type { Test } from 'tap'
import { definePlugin, GatewayError, Message } from '../../core/contract/contract.ts'
import type { Hooks, Plugin } from '../../core/contract/contract.ts'
import { plugins } from '../../plugins/index.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually, settled } from '../kit/probe.ts'
import { openRealtime, refusedRealtime } from '../kit/realtime.ts'
import { sessionsAt, socketUpstream } from '../kit/socket-upstream.ts'
import type { SocketUpstream } from '../kit/socket-upstream.ts'

function plugin(name: string, hooks: Hooks): Plugin {
  return definePlugin({ name, summary: 'For a test.', options: {}, setup: () => hooks })
}

/** The default chain with these at its top, the first uppermost. */
function withPlugins(t: Test, upstream: SocketUpstream, ...more: Plugin[]): Promise<LocalGateway> {
  const chain = [
    ...more.map(({ name }) => ({ [name]: {} })),
    ...['auth', 'quota', 'ratelimit', 'route', 'usage-meter'].map((name) => ({ [name]: {} })),
    { log: { sink: 'none' } }
  ]
  return gateway(
    t,
    { ...sessionsAt(upstream), chain },
    { plugins: new Map([...plugins, ...more.map((one): [string, Plugin] => [one.name, one])]) }
  )
}

t.test(
  'frames of a client go down the chain, those of an upstream up, and what is emitted goes where it says',
  async (t) => {
    const upstream = await socketUpstream(t)
    const seen: string[] = []
    let ended = 0
    const event = (type: string): string => JSON.stringify({ type })
    const marked = (frame: string, name: string): string => event(`${JSON.parse(frame).type} ${name}`)
    const marker = (name: string): Plugin =>
      plugin(name, {
        onResponse: () => ({
          takes: 'frames',
          map(message, emit) {
            seen.push(`${name} ${message.from} ${message.kind}`)
            if (message.from === 'client' && message.data.includes('no entry'))
              return emit(Message.frame('{"type":"refused"}', 'upstream'))
            emit(message.withData(Buffer.from(marked(String(message.data), name))))
          },
          end: (_complete, emit) => {
            ended++
            emit(Message.frame(event(`bye ${name}`), 'upstream'))
          }
        })
      })
    const running = await withPlugins(
      t,
      upstream,
      marker('upper'),
      plugin('looker', {
        onResponse: () => ({ takes: 'frames', observe: ({ from }) => void seen.push(`looker ${from}`) })
      }),
      marker('lower')
    )
    const client = await openRealtime(t, running)
    const { socket } = await upstream.peer()
    client.socket.send(event('down'))
    t.equal(String((await once(socket!, 'message'))[0]), event('down upper lower'))
    t.same(seen.splice(0), ['upper client frame', 'looker client', 'lower client frame'])
    socket!.send(event('up'))
    t.equal(String((await once(client.socket, 'message'))[0]), event('up lower upper'))
    t.same(seen.splice(0), ['lower upstream frame', 'looker upstream', 'upper upstream frame'])
    client.socket.send(event('no entry'))
    t.equal(String((await once(client.socket, 'message'))[0]), '{"type":"refused"}')
    t.same(seen.splice(0), ['upper client frame'], 'nobody further down has seen it')
    socket!.close(1000)
    await client.closed
    await settled(t, running)
    t.equal(ended, 2)
    t.same(
      client.frames.slice(-2).map(({ data }) => String(data)),
      [event('bye lower upper'), event('bye upper')],
      'what the end of a stage emits comes before the end'
    )
  }
)

t.test('a stage that cannot see frames has sessions refused, and one that fails ends its own', async (t) => {
  const upstream = await socketUpstream(t)
  for (const [name, stage] of Object.entries({
    observer: { observe() {} },
    mapper: { takes: 'runs' as const, map() {} }
  })) {
    const running = await withPlugins(t, upstream, plugin(name, { onResponse: () => stage }))
    const refused = await refusedRealtime(t, running)
    t.match([refused.status, refused.json], [502, { error: { code: 'answer_not_inspected' } }], name)
    await settled(t, running)
  }
  const running = await withPlugins(
    t,
    upstream,
    plugin('broken', {
      onResponse: () => ({
        takes: 'frames',
        observe: ({ data }) => {
          if (data.includes('break')) throw new TypeError('mistake')
        }
      })
    })
  )
  const [one, other] = [await openRealtime(t, running), await openRealtime(t, running)]
  one.socket.send('{"type":"break"}')
  t.equal((await one.closed).code, 1011)
  t.match(one.events.at(-1), { type: 'error', error: { code: 'internal_error' } })
  t.match(JSON.stringify(running.lines), /in the plugin broken/)
  t.equal(other.socket.readyState, other.socket.OPEN)
})

/** Masks addresses, which may be cut anywhere: what may still become one is held back. */
function masking(skip: boolean): Plugin {
  return plugin('masking', {
    onResponse: () => {
      const held = new Map<string, string>()
      const masked = (text: string): string => text.replace(/\S+@\S+/g, '[mail]')
      return {
        skip,
        text({ block, text }) {
          const all = (held.get(block) ?? '') + text
          const cut = all.search(/\S*$/)
          held.set(block, all.slice(cut))
          return masked(all.slice(0, cut))
        },
        flush: ({ block }) => masked(held.get(block) ?? '')
      }
    }
  })
}

/** The frames in which an upstream tells of a response that says one text, bit by bit and again as a whole. */
function spoken(id: string, pieces: readonly string[], kind: 'output_text' | 'output_audio_transcript'): object[] {
  const at = { response_id: id, item_id: `item_${id}`, output_index: 0, content_index: 0 }
  const text = pieces.join('')
  const [type, member] = kind === 'output_text' ? ['output_text', 'text'] : ['output_audio', 'transcript']
  const item = { id: `item_${id}`, type: 'message', role: 'assistant', content: [{ type, [member!]: text }] }
  return [
    { type: 'response.created', response: { id, output: [] } },
    { type: 'response.output_item.added', response_id: id, output_index: 0, item: { ...item, content: [] } },
    ...pieces.map((delta) => ({ type: `response.${kind}.delta`, ...at, delta })),
    { type: `response.${kind}.done`, ...at, [member!]: text },
    { type: 'response.content_part.done', ...at, part: item.content[0] },
    { type: 'conversation.item.done', item },
    { type: 'response.output_item.done', response_id: id, output_index: 0, item },
    { type: 'response.done', response: { id, status: 'completed', output: [item], usage: { total_tokens: 0 } } }
  ]
}

t.test('text that a session says is masked wherever it is told, of each response by itself', async (t) => {
  const upstream = await socketUpstream(t)
  const running = await withPlugins(t, upstream, masking(false))
  const client = await openRealtime(t, running)
  const { socket } = await upstream.peer()
  const user = {
    id: 'item_user',
    type: 'message',
    role: 'user',
    content: [{ type: 'input_text', text: 'I am u@s.er' }]
  }
  socket!.send(JSON.stringify({ type: 'conversation.item.added', item: user }))
  t.match(
    await client.event('conversation.item.added'),
    { item: user },
    'what was said to the model is the client’s own'
  )
  const kinds = ['output_text', 'output_audio_transcript'] as const
  for (const [at, kind] of kinds.entries()) {
    const id = `r${at}`
    const before = client.events.length
    for (const frame of spoken(id, ['Write to me@', 'acme.com n', 'ow or b@c.d'], kind))
      socket!.send(JSON.stringify(frame))
    const done = await client.event('response.done', at + 1)
    const masked = 'Write to [mail] now or [mail]'
    const events = client.events.slice(before)
    const deltas = events.filter(({ type }) => type.endsWith('.delta'))
    t.equal(deltas.map(({ delta }) => delta).join(''), masked, kind)
    t.notMatch(JSON.stringify(events), /acme|b@c/, 'and nothing that repeats it shows it')
    t.match(JSON.stringify(done), masked)
    t.ok(deltas.every((delta) => delta['item_id'] === `item_${id}`))
  }
  client.socket.close()
  await settled(t, running)
})

t.test('sound of a session passes a text stage that skips it, and no other', async (t) => {
  const upstream = await socketUpstream(t)
  const sound = '{"type":"response.output_audio.delta","item_id":"i","delta":"AAAA"}'
  const open = await withPlugins(t, upstream, masking(true))
  const heard = await openRealtime(t, open)
  ;(await upstream.peer()).socket!.send(sound)
  t.match(await heard.event('response.output_audio.delta'), { delta: 'AAAA' })
  heard.socket.close()
  await settled(t, open)

  const strict = await withPlugins(t, upstream, masking(false))
  const deaf = await openRealtime(t, strict)
  ;(await upstream.peer(2)).socket!.send(sound)
  await deaf.closed
  t.match(deaf.events.at(-1), { type: 'error', error: { code: 'answer_not_inspected' } })
  t.notMatch(JSON.stringify(deaf.events), 'AAAA')
  await settled(t, strict)
})

t.test('a turn may be refused by any plugin, has its releases run once, and is shown when it is on disk', async (t) => {
  const upstream = await socketUpstream(t)
  const told: string[] = []
  const disk = Promise.withResolvers<void>()
  const guard = plugin('guard', {
    async onTurn(_exchange, turn) {
      await Promise.resolve()
      told.push(`asked ${turn.part} ${turn.asked}`)
      turn.defer(({ ended, begun }) => void told.push(`over ${turn.part} begun ${begun} ended ${ended}`))
      if (turn.part === '1') throw new GatewayError('content_blocked', 'Not this.')
      if (turn.part === '2') turn.showAfter(disk.promise)
    }
  })
  const running = await withPlugins(t, upstream, guard)
  const client = await openRealtime(t, running)
  const { socket } = await upstream.peer()
  client.send({ type: 'response.create', event_id: 'first' })
  t.match(await client.event('error'), { error: { code: 'content_blocked', event_id: 'first' } })
  client.send({ type: 'response.create', event_id: 'second' })
  t.match(JSON.parse(String((await once(socket!, 'message'))[0])), { event_id: 'second' }, 'the first was never sent')
  socket!.send('{"type":"response.created","response":{"id":"r2"}}')
  socket!.send(
    '{"type":"response.done","response":{"id":"r2","usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7}}}'
  )
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(client.frames.length, 1, 'nothing of it is shown before')
  disk.resolve()
  await client.event('response.done')
  socket!.send(
    '{"type":"response.done","response":{"id":"r2","usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7}}}'
  )
  await client.event('response.done', 2)
  client.send({ type: 'response.create', event_id: 'third' })
  await once(socket!, 'message')
  socket!.send('{"type":"error","error":{"type":"invalid_request_error","message":"busy","event_id":"third"}}')
  await client.event('error', 2)
  client.socket.close(1000)
  await settled(t, running)
  t.same(told, [
    'asked 1 true',
    'over 1 begun false ended false',
    'asked 2 true',
    'over 2 begun true ended true',
    'asked 3 true',
    'over 3 begun false ended false'
  ])
  const { data } = await running.admin('/admin/v1/requests')
  t.equal(data[0].cost_nano, '9000', 'charged once')
})

t.test('what an upstream is only heard of is given back, whatever becomes of the disk or the session', async (t) => {
  const transcribed = (item: string): string =>
    JSON.stringify({
      type: 'conversation.item.input_audio_transcription.completed',
      item_id: item,
      content_index: 0,
      usage: { type: 'duration', seconds: 2 }
    })
  const ways: Record<string, (disk: PromiseWithResolvers<void>, leave: () => void) => void> = {
    'the disk fails': (disk) => disk.reject(new GatewayError('billing_unavailable', 'no disk')),
    'the client leaves before': (_disk, leave) => leave()
  }
  for (const [way, happen] of Object.entries(ways)) {
    const upstream = await socketUpstream(t)
    const disk = Promise.withResolvers<void>()
    const told: unknown[] = []
    let asked = 0
    const holder = plugin('holder', {
      onTurn(_exchange, turn) {
        asked++
        turn.defer(({ ended, reported }) => void told.push([ended, reported !== undefined]))
        turn.showAfter(disk.promise)
      },
      onSettled: () => void told.push('settled')
    })
    const running = await withPlugins(t, upstream, holder)
    const client = await openRealtime(t, running)
    const { socket } = await upstream.peer()
    socket!.send(transcribed('one'))
    await eventually(() => asked === 1)
    happen(disk, () => client.socket.terminate())
    await client.closed
    await settled(t, running)
    t.same(told, [[true, true], 'settled'], way)
  }
})

t.test(
  'a client that leaves in the middle has its response cancelled, and pays for what the upstream then reports',
  async (t) => {
    const upstream = await socketUpstream(t)
    const running = await gateway(t, {
      ...sessionsAt(upstream),
      keys: [{ name: 'test', key: testKey, tenant: 'acme' }],
      limits: { disconnect_drain: { time: '5s' } }
    })
    const client = await openRealtime(t, running)
    const { socket } = await upstream.peer()
    const sent: any[] = []
    socket!.on('message', (data) => void sent.push(JSON.parse(String(data))))
    client.send({ type: 'response.create' })
    await once(socket!, 'message')
    client.socket.terminate()
    socket!.send('{"type":"response.created","response":{"id":"r1"}}')
    await once(socket!, 'message')
    t.match(sent.at(-1), { type: 'response.cancel', response_id: 'r1' })
    socket!.send(
      '{"type":"response.done","response":{"id":"r1","status":"cancelled","usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7}}}'
    )
    t.equal((await once(socket!, 'close'))[0], 1001)
    await settled(t, running)
    const { data } = await running.admin('/admin/v1/requests')
    t.match(data[0], { outcome: 'aborted', cost_nano: '9000', usage_source: 'upstream' })
  }
)

t.test(
  'what an upstream begins by itself is stopped when the budget is spent, and what it took is charged',
  async (t) => {
    const upstream = await socketUpstream(t)
    const running = await gateway(t, {
      ...sessionsAt(upstream),
      keys: [{ name: 'test', key: testKey, tenant: 'acme', budget: { usd: '0.0045', per: 'total' } }]
    })
    const client = await openRealtime(t, running)
    const { socket } = await upstream.peer()
    const sent: any[] = []
    socket!.on('message', (data) => void sent.push(JSON.parse(String(data))))
    const usage = { input_tokens: 1000, output_tokens: 0, total_tokens: 1000 }
    socket!.send('{"type":"response.created","response":{"id":"r1"}}')
    socket!.send(JSON.stringify({ type: 'response.done', response: { id: 'r1', usage } }))
    await client.event('response.done')
    t.equal(sent.length, 0, 'the first is within the budget')
    socket!.send('{"type":"response.created","response":{"id":"r2"}}')
    t.match(await client.event('error'), { error: { code: 'quota_key_exceeded', event_id: null } })
    await eventually(() => sent.length === 1)
    t.match(sent, [{ type: 'response.cancel', response_id: 'r2' }])
    socket!.send(JSON.stringify({ type: 'response.done', response: { id: 'r2', status: 'cancelled', usage } }))
    t.equal((await client.closed).code, 1008, 'it may not go on')
    await settled(t, running)
    const { data } = await running.admin('/admin/v1/requests')
    t.equal(data[0].cost_nano, '2000000')
  }
)

t.test('the hold of a turn ends whatever a meter says, by the estimate', async (t) => {
  const upstream = await socketUpstream(t)
  const odd = plugin('odd', {
    onTurn: (_exchange, turn) =>
      turn.measure(() => {
        turn.usage = {
          get usage(): never {
            throw new Error('This meter is broken.')
          },
          source: 'upstream'
        }
      })
  })
  const chain = ['auth', 'quota', 'route', 'usage-meter', 'odd'].map((name) => ({ [name]: {} }))
  const running = await gateway(
    t,
    { ...sessionsAt(upstream), chain: [...chain, { log: { sink: 'none' } }] },
    { plugins: new Map([...plugins, ['odd', odd]]) }
  )
  const client = await openRealtime(t, running)
  const { socket } = await upstream.peer()
  client.send({ type: 'response.create' })
  await once(socket!, 'message')
  socket!.send('{"type":"response.created","response":{"id":"r1"}}')
  for (let word = 0; word < 20; word++)
    socket!.send(JSON.stringify({ type: 'response.output_text.delta', response_id: 'r1', delta: 'word ' }))
  socket!.send('{"type":"response.done","response":{"id":"r1","status":"completed"}}')
  await client.event('response.done')
  client.socket.close(1000)
  await settled(t, running)
  const { data } = await running.admin('/admin/v1/requests')
  t.match(data[0], { usage_source: 'estimated' })
  t.ok(data[0].usage.input > 0 && data[0].usage.output > 0 && Number(data[0].cost_nano) > 0, JSON.stringify(data[0]))
  t.equal(running.lines.filter(({ message }) => message.includes('could not be computed')).length, 1)
})

t.test(
  'what measures a turn and returns a promise is complained of, and what follows it ends its session',
  async (t) => {
    const late = (): Promise<never> => Promise.reject(new Error('late'))
    for (const way of ['measure', 'follow'] as const) {
      const upstream = await socketUpstream(t)
      const odd = plugin('odd', { onTurn: (_exchange, turn) => turn[way](late as () => never) })
      const running = await withPlugins(t, upstream, odd)
      const client = await openRealtime(t, running)
      const { socket } = await upstream.peer()
      client.send({ type: 'response.create' })
      await once(socket!, 'message')
      socket!.send('{"type":"response.created","response":{"id":"r1"}}')
      for (let word = 0; word < 40; word++)
        socket!.send(JSON.stringify({ type: 'response.output_text.delta', response_id: 'r1', delta: 'word ' }))
      socket!.send('{"type":"response.done","response":{"id":"r1","status":"completed"}}')
      if (way === 'measure') {
        await client.event('response.done')
        client.socket.close(1000)
      } else t.equal((await client.closed).code, 1011)
      await settled(t, running)
      t.match(
        JSON.stringify(running.lines),
        /what (measures|follows) a turn is synchronous, and this one returned/,
        way
      )
    }
  }
)

t.test('a turn that plugins are asked about while its session ends is charged once, in its record too', async (t) => {
  const usage = { input_tokens: 30, output_tokens: 7, total_tokens: 37 }
  const began = JSON.stringify({ type: 'response.created', response: { id: 'r1', status: 'in_progress' } })
  const over = JSON.stringify({ type: 'response.done', response: { id: 'r1', status: 'completed', usage } })
  const type = 'conversation.item.input_audio_transcription.completed'
  const heard = JSON.stringify({ type, item_id: 'item_1', content_index: 0, transcript: 'Hi', usage })
  const counted = String(30 * 1000 + 7 * 2000)
  const cases: [string, string[], boolean, string | undefined][] = [
    ['a response whose client stays', [began, over], false, counted],
    ['a response whose client leaves', [began, over], true, undefined],
    ['a transcript whose client stays', [heard], false, counted],
    ['a transcript whose client leaves', [heard], true, counted]
  ]
  for (const [name, frames, leaves, due] of cases) {
    const upstream = await socketUpstream(t)
    const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let ended = 0
    const slow = plugin('slow', {
      onTurn(_exchange, turn) {
        turn.defer(() => void ended++)
        asked.resolve()
        return answered.promise
      }
    })
    const running = await withPlugins(t, upstream, slow)
    const client = await openRealtime(t, running)
    const { socket } = await upstream.peer()
    const content = [{ type: 'input_text', text: 'Tell me a long story, please.' }]
    client.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } })
    await once(socket!, 'message')
    for (const frame of frames) socket!.send(frame)
    await asked.promise
    if (leaves) {
      client.socket.terminate()
      await once(socket!, 'close')
    }
    answered.resolve()
    if (!leaves) {
      await eventually(() => ended === 1)
      client.socket.close(1000)
    }
    await settled(t, running)
    await eventually(async () => (await running.admin('/admin/v1/requests')).data.length === 1)
    const { data } = await running.admin('/admin/v1/requests')
    const balances = await running.admin('/admin/v1/balances')
    const posted = balances.data.find(({ scope, window }: any) => scope.startsWith('key:') && window === 'total')
    t.equal(data[0].cost_nano, posted?.posted_nano ?? '0', `${name}: its record has what was charged`)
    if (due === undefined) t.ok(Number(data[0].cost_nano) > 0, `${name}: the prompt is due`)
    else t.equal(data[0].cost_nano, due, name)
    t.equal(ended, 1, `${name}: it ended once`)
  }
})
