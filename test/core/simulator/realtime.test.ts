// The simulator's realtime sessions: what a client may do, what it is told when it may not, and how they break off.
import { once } from 'node:events'
import t from 'tap'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { startSimulator } from '../../../core/simulator/simulator.ts'
import type { Simulator, SimulatorOptions } from '../../../core/simulator/simulator.ts'
import { eventually } from '../../kit/probe.ts'
import { RealtimeClient } from '../../kit/realtime.ts'
import { changed, placesOf } from './kit.ts'

async function simulator(t: Test, options: SimulatorOptions = {}): Promise<Simulator> {
  const running = await startSimulator(options)
  t.teardown(() => running.close())
  return running
}

async function open(
  t: Test,
  { url }: Simulator,
  query = 'model=demo',
  headers: Record<string, string> = {}
): Promise<RealtimeClient> {
  const socket = new WebSocket(`${url.href.replace('http', 'ws')}v1/realtime?${query}`, ['realtime'], { headers })
  socket.on('error', () => {})
  t.teardown(() => socket.terminate())
  const client = new RealtimeClient(socket)
  await once(socket, 'open')
  return client
}

t.test('the handshake is refused as the vendor refuses it', async (t) => {
  const running = await simulator(t, { key: 'sk-right', models: ['demo'] })
  for (const [query, key, status] of [
    ['model=demo', 'sk-wrong', 401],
    ['model=other', 'sk-right', 404],
    ['', 'sk-right', 400]
  ] as const) {
    const socket = new WebSocket(`${running.url.href.replace('http', 'ws')}v1/realtime?${query}`, {
      headers: { authorization: `Bearer ${key}` }
    })
    socket.on('error', () => {})
    const [, response] = await once(socket, 'unexpected-response')
    t.equal(response.statusCode, status)
    response.destroy()
  }
  t.match(await (await open(t, running, 'model=demo', { authorization: 'Bearer sk-right' })).event('session.created'), {
    session: { model: 'demo' }
  })
})

t.test('items are made, shown, cut and deleted; what is wrong is told with its event', async (t) => {
  const client = await open(t, await simulator(t))
  client.send({
    type: 'conversation.item.create',
    item: { id: 'mine', type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }
  })
  t.match(await client.event('conversation.item.added'), {
    previous_item_id: null,
    item: { id: 'mine', object: 'realtime.item' }
  })
  client.send({ type: 'conversation.item.retrieve', item_id: 'mine' })
  t.match(await client.event('conversation.item.retrieved'), { item: { content: [{ text: 'Hi' }] } })
  client.send({ type: 'conversation.item.truncate', item_id: 'mine', content_index: 0, audio_end_ms: 100 })
  t.match(await client.event('conversation.item.truncated'), { item_id: 'mine', audio_end_ms: 100 })
  client.send({ type: 'conversation.item.delete', item_id: 'mine' })
  t.match(await client.event('conversation.item.deleted'), { item_id: 'mine' })
  const wrong: [Record<string, unknown>, string][] = [
    [{ type: 'conversation.item.retrieve', item_id: 'mine' }, 'item_not_found'],
    [{ type: 'nothing' }, 'invalid_value'],
    [{}, 'missing_required_parameter'],
    [{ type: 'response.cancel' }, 'response_cancel_not_active'],
    [{ type: 'input_audio_buffer.commit' }, 'input_audio_buffer_commit_empty'],
    [{ type: 'session.update', session: { model: 'other' } }, 'cannot_update_model'],
    [{ type: 'conversation.item.create', item: { type: 'odd' } }, 'invalid_value']
  ]
  for (const [n, [event, code]] of wrong.entries()) {
    client.send({ ...event, event_id: `e${n}` } as unknown as { type: string })
    t.match(await client.event('error', n + 1), { error: { code, event_id: `e${n}` } })
  }
})

t.test('one response at a time, others beside the conversation, each with its usage', async (t) => {
  const running = await simulator(t)
  const client = await open(t, running)
  client.ask('Slow [[simulator {"tokens": 500, "gap_ms": 2}]]')
  await client.event('response.output_text.delta')
  client.send({ type: 'response.create' })
  t.match(await client.event('error'), { error: { code: 'conversation_already_has_active_response' } })
  client.send({
    type: 'response.create',
    response: {
      conversation: 'none',
      output_modalities: ['text'],
      metadata: { topic: 'apart' },
      input: [
        {
          type: 'message',
          role: 'user',
          content: [{ type: 'input_text', text: 'Quick [[simulator {"text": "Yes"}]]' }]
        }
      ]
    }
  })
  client.send({ type: 'response.cancel' })
  const [first, second] = [await client.event('response.done'), await client.event('response.done', 2)]
  t.match(first, { response: { status: 'cancelled', status_details: { reason: 'client_cancelled' } } })
  t.match(second, {
    response: { status: 'completed', conversation_id: null, metadata: { topic: 'apart' }, usage: { output_tokens: 1 } }
  })
  client.send({ type: 'response.create', response: { output_modalities: ['text'], max_output_tokens: 3 } })
  t.match(await client.event('response.done', 3), {
    response: { status: 'incomplete', status_details: { reason: 'max_output_tokens' }, usage: { output_tokens: 3 } }
  })
  t.equal(running.stats.completed, 3)
})

t.test('a pause ends a turn, and speech interrupts an answer', async (t) => {
  const client = await open(t, await simulator(t))
  const sound = (ms: number, fill: number): string => Buffer.alloc(48 * ms, fill).toString('base64')
  client
    .send({ type: 'input_audio_buffer.append', audio: sound(1000, 1) })
    .send({ type: 'input_audio_buffer.append', audio: sound(500, 0) })
  t.match(await client.event('response.done'), { response: { usage: { input_token_details: { audio_tokens: 15 } } } })
  client.ask('Long [[simulator {"tokens": 5000, "gap_ms": 2}]]')
  await client.event('response.created', 2)
  client.send({ type: 'input_audio_buffer.append', audio: sound(100, 1) })
  t.match(await client.event('response.done', 2), {
    response: { status: 'cancelled', status_details: { reason: 'turn_detected' } }
  })
})

t.test('a directive breaks a session off', async (t) => {
  const running = await simulator(t)
  for (const [cut, code] of [
    ['end', 1000],
    ['error', 1011],
    ['reset', 1006],
    ['fin', 1006]
  ] as const) {
    const client = await open(t, running)
    client.ask(`Break [[simulator {"cut": "${cut}", "after_events": 5}]]`)
    t.equal((await client.closed).code, code, cut)
    t.equal(client.events.filter(({ type }) => type === 'response.output_text.delta').length, 2)
  }
  t.equal(running.stats.cut, 4)
})

t.test('a member that is no text is refused, or does not matter', async (t) => {
  const running = await simulator(t)
  const content = [
    { type: 'input_text', text: 'Hi' },
    { type: 'input_audio', audio: 'AAAA' }
  ]
  const message = { type: 'message', role: 'user', content }
  const tools = [{ type: 'function', name: 'f', parameters: {} }]
  const input = {
    format: { type: 'audio/pcm' },
    transcription: { model: 'whisper-1' },
    turn_detection: { type: 'server_vad', silence_duration_ms: 0 }
  }
  const settings = { instructions: 'Be short.', tools, tool_choice: { name: 'f' }, output_modalities: ['text'] }
  const asked: Record<string, unknown>[] = [
    { type: 'session.update', session: { ...settings, audio: { input } } },
    { type: 'conversation.item.create', item: message, previous_item_id: null },
    { type: 'conversation.item.create', item: { type: 'function_call', name: 'f', call_id: 'c', arguments: '{}' } },
    { type: 'conversation.item.create', item: { type: 'function_call_output', call_id: 'c', output: 'done' } },
    { type: 'conversation.item.retrieve', item_id: 'x' },
    { type: 'conversation.item.delete', item_id: 'x' },
    { type: 'conversation.item.truncate', item_id: 'x', content_index: 0, audio_end_ms: 1 },
    { type: 'response.create', response: { ...settings, conversation: 'none', input: [message], metadata: {} } },
    { type: 'response.cancel', response_id: 'x' }
  ]
  const sound = [Buffer.alloc(48, 1), Buffer.alloc(48)].map((bytes) => bytes.toString('base64'))
  for (const event of asked) {
    const client = await open(t, running)
    for (const place of placesOf(event))
      for (const textless of [{ toString: 0 }, [{ toString: 0 }]]) {
        client.socket.send(JSON.stringify(changed(event, place, textless)))
        // What was set is used.
        for (const audio of sound) client.send({ type: 'input_audio_buffer.append', audio })
        client.send({ type: 'response.create' })
      }
    client.send({ type: 'the end', event_id: 'end' })
    await eventually(() => client.events.some(({ error }) => error?.event_id === 'end'))
    const failed = client.events.filter(({ error }) => error?.message.startsWith('The simulator failed'))
    t.strictSame(failed, [], `${String(event['type'])}`)
  }
})
