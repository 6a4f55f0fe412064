// What the protocols of channels find in payloads: whether a body is an answer, what was used, how much was said, and
// how errors are told.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { protocols } from '../../core/protocols/index.ts'
import type { ShownError } from '../../core/protocols/index.ts'

type Json = any
type Read = 'openai-chat' | 'anthropic' | 'bedrock'

const textOf = (data: Json): string => (typeof data === 'string' ? data : JSON.stringify(data))
const bodyOf = (data: Json): Message => new Message('json', Buffer.from(textOf(data)))
const eventOf = (data: Json): Message => Message.event(textOf(data))
/** JSON text that no lens reads, as it has a member twice. */
const twice = (data: Json): string => `{"x":1,"x":2,${JSON.stringify(data).slice(1)}`

const isAnswer = (name: Read, data: Json): boolean => protocols[name].isAnswer(bodyOf(data))

t.test('chat: an answer has a choice with a message, and reports no error', async (t) => {
  const said = { message: { content: 'a' } }
  for (const answer of [
    { choices: [said] },
    { choices: [{ message: null }, said], error: null },
    { choices: [{ message: {} }] },
    { choices: ['"message"', said] },
    { choices: [{ error: null, ...said }] },
    { choices: [{ message: { content: '"error"' } }] }
  ]) {
    t.ok(isAnswer('openai-chat', answer), JSON.stringify(answer))
    t.ok(isAnswer('openai-chat', JSON.stringify(answer, undefined, 1).replaceAll(':', ' : ')), 'written with spaces')
    t.ok(isAnswer('openai-chat', twice(answer)))
  }
  for (const other of [
    {},
    { choices: said },
    { choices: null },
    { choices: [] },
    { choices: [{ delta: {} }] },
    { choices: [{ message: null }] },
    { choices: [{ message: 'text' }] },
    { choices: ['message', {}] },
    { choices: [null] },
    { choices: [said], error: {} },
    { choices: [said], error: 'No.' },
    { choices: [said, { error: 'No.' }] },
    { choices: [{ ...said, finish_reason: 'error', error: null }] }
  ]) {
    t.notOk(isAnswer('openai-chat', other), JSON.stringify(other))
    t.notOk(isAnswer('openai-chat', twice(other)), `${JSON.stringify(other)} without a lens`)
  }
  t.notOk(isAnswer('openai-chat', [said]))
  const unparsed = bodyOf({ choices: [said] })
  t.ok(protocols['openai-chat'].isAnswer(unparsed))
  t.notOk(unparsed.parsed, 'nor is it parsed for that')
})

t.test('messages and converse: an answer has its content', async (t) => {
  for (const [name, answer, yes] of [
    ['anthropic', { content: [] }, true],
    ['anthropic', { content: [], error: null }, true],
    ['anthropic', { content: [], error: {} }, false],
    ['anthropic', { content: 'a' }, false],
    ['anthropic', {}, false],
    ['anthropic', [], false],
    ['anthropic', twice({ content: [] }), false],
    ['bedrock', { output: {} }, true],
    ['bedrock', { output: [] }, false],
    ['bedrock', [], false]
  ] as [Read, Json, boolean][])
    t.equal(isAnswer(name, answer), yes, `${name} ${textOf(answer)}`)
  const counts = ['anthropic-count', 'bedrock-count', 'invoke-count'] as const
  for (const name of counts) {
    const key = name === 'anthropic-count' ? 'input_tokens' : 'inputTokens'
    t.ok(protocols[name].isAnswer(bodyOf({ [key]: 1 })))
    t.notOk(protocols[name].isAnswer(bodyOf({ [key]: '1' })))
    t.notOk(protocols[name].isAnswer(bodyOf([])))
  }
  t.ok(protocols['bedrock-embed'].isAnswer(bodyOf({ answers: [] })))
  t.notOk(protocols['bedrock-embed'].isAnswer(bodyOf({ answers: {} })))
})

const used = { prompt_tokens: 3, completion_tokens: 2 }
/** The tokens that are read in a message, or what is said instead. */
function counted(name: Read, message: Message): unknown {
  const usage = protocols[name].readUsage(message)
  return typeof usage === 'object' ? [usage.input, usage.output] : usage
}

t.test('chat: usage is found at the top, in the object of a vendor and in the first choice', async (t) => {
  for (const [data, found] of [
    [{ usage: used }, [3, 2]],
    [{ x_groq: { usage: used } }, [3, 2]],
    [{ choices: [{ usage: used }] }, [3, 2]],
    [{ choices: [null, { usage: used }] }, undefined],
    [{ choices: { usage: used } }, undefined],
    [{ usage: null, x_groq: { usage: used } }, [3, 2]],
    [{ usage: { prompt_tokens: -1, completion_tokens: 1 }, x_groq: { usage: used } }, 'insane'],
    [{ usage: {} }, undefined],
    [{ choices: [{ delta: { content: '"usage":{' } }] }, undefined]
  ] as const) {
    const label = JSON.stringify(data)
    for (const make of [bodyOf, eventOf]) {
      t.same(counted('openai-chat', make(data)), found, label)
      t.same(counted('openai-chat', make(twice(data))), found, `${label} without a lens`)
      const parsed = make(data)
      parsed.json()
      t.same(counted('openai-chat', parsed), found, `${label} when it is parsed`)
    }
    const plain = eventOf(data)
    plain.plain = true
    t.equal(counted('openai-chat', plain), undefined, 'not where it cannot be')
  }
  t.equal(counted('openai-chat', eventOf('none')), undefined)
  t.equal(counted('openai-chat', bodyOf('"usage"')), undefined)
  const escaped = eventOf('{"us\\u0061ge":{"prompt_tokens":3,"completion_tokens":2}}')
  escaped.json()
  t.same(counted('openai-chat', escaped), [3, 2], 'what is parsed is not searched for the word')
  const without = eventOf({ choices: [], usage: null })
  counted('openai-chat', without)
  t.notOk(without.seen, 'an event that has none is not looked into')
})

t.test('chat: a large body is not parsed for the usage of a choice', async (t) => {
  const body = (length: number): Message => {
    const empty = JSON.stringify({ x: '', choices: [{ usage: used }] }).length
    return bodyOf({ x: 'x'.repeat(length - empty), choices: [{ usage: used }] })
  }
  const most = 128 * 1024
  t.same(counted('openai-chat', body(most)), [3, 2])
  t.equal(counted('openai-chat', body(most + 1)), undefined)
  const top = bodyOf({ x: 'x'.repeat(most), usage: used })
  t.same(counted('openai-chat', top), [3, 2], 'but its top is read')
  t.notOk(top.parsed)
  const event = eventOf({ x: 'x'.repeat(most), choices: [{ usage: used }] })
  t.same(counted('openai-chat', event), [3, 2], 'and an event is')
})

t.test('messages and converse: usage is found at the top, and where a stream begins', async (t) => {
  const usage = { input_tokens: 3, output_tokens: 2 }
  for (const [name, data, found] of [
    ['anthropic', { usage }, [3, 2]],
    ['anthropic', { message: { usage } }, [3, 2]],
    ['anthropic', { usage: null, message: { usage } }, [3, 2]],
    ['anthropic', {}, undefined],
    ['bedrock', { usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5 } }, [3, 2]],
    ['bedrock', {}, undefined]
  ] as const) {
    const label = `${name} ${JSON.stringify(data)}`
    t.same(counted(name, eventOf(data)), found, label)
    const parsed = bodyOf(data)
    parsed.json()
    t.same(counted(name, parsed), found, `${label} when it is parsed`)
    t.same(counted(name, bodyOf(twice(data))), found, `${label} without a lens`)
    const plain = eventOf(data)
    plain.plain = true
    t.equal(counted(name, plain), undefined, 'not where it cannot be')
    if ('message' in data) continue
    const body = bodyOf(data)
    t.same(counted(name, body), found, `${label} as a body`)
    t.notOk(body.parsed)
  }
  t.equal(counted('anthropic', eventOf('"usage"')), undefined)
  t.equal(counted('bedrock', eventOf('"usage"')), undefined)
  const unseen = eventOf({ delta: {} })
  counted('anthropic', unseen)
  counted('bedrock', unseen)
  t.notOk(unseen.seen, 'an event without the word is not looked into')
  const reader = protocols.anthropic.usageReader!()
  const read = (data: Json): unknown => {
    const usage = reader.read(eventOf(data))
    return typeof usage === 'object' ? [usage.input, usage.output] : usage
  }
  t.same(read({ message: { usage: { input_tokens: 3, output_tokens: 1 } } }), [3, 1])
  t.equal(read({ delta: {} }), undefined)
  t.same(read({ usage: { output_tokens: 5 } }), [3, 5])
})

t.test('chat: usage that was not asked for is taken out, or its event is', async (t) => {
  const without = (data: Json, plain = false): unknown => {
    const event = eventOf(data)
    event.plain = plain
    const made = protocols['openai-chat'].withoutUsage(event)
    return Buffer.isBuffer(made) ? JSON.parse(String(made)) : made
  }
  const said = { choices: [{ delta: { content: 'a' } }] }
  for (const [data, made, twofold] of [
    [said, undefined, undefined],
    [{ ...said, usage: null }, said, undefined],
    [{ ...said, usage: used }, undefined, undefined],
    [{ choices: [], usage: used }, 'nothing', 'nothing'],
    [{ choices: null, usage: used }, 'nothing', 'nothing'],
    [{ usage: used }, 'nothing', 'nothing'],
    [{ choices: [{ usage: used }] }, undefined, undefined],
    [{ choices: [], usage: null }, { choices: [] }, undefined]
  ] as const) {
    t.strictSame(without(data), made, JSON.stringify(data))
    t.strictSame(without(twice(data)), twofold, `${JSON.stringify(data)} without a lens`)
  }
  t.equal(without('["usage"]'), undefined)
  t.equal(without({ choices: [], usage: used }, true), undefined, 'not where it cannot be')
  const none = eventOf(said)
  protocols['openai-chat'].withoutUsage(none)
  t.notOk(none.seen)
  const asked = (body: Json): unknown => protocols['openai-chat'].askForUsage(bodyOf(body).lens as never)
  const asks = (json: string): unknown => ({ key: 'stream_options', json })
  t.strictSame(asked({}), asks('{"include_usage":true}'))
  t.strictSame(asked({ stream_options: { a: 1, include_usage: false } }), asks('{"a":1,"include_usage":true}'))
  t.equal(asked({ stream_options: { include_usage: true } }), undefined)
  for (const name of ['anthropic', 'bedrock'] as const) {
    t.equal(protocols[name].askForUsage({} as never), undefined)
    t.equal(protocols[name].withoutUsage(eventOf({ usage: null })), undefined)
  }
})

t.test('the bytes of an answer are those of its text, whole and in pieces', async (t) => {
  for (const [name, body, bytes] of [
    ['openai-chat', { choices: [{ message: { content: 'ab' } }, { delta: { content: 'c' } }, null] }, 3],
    ['openai-chat', { choices: [{ message: { content: 'ab' }, delta: { content: 'c' } }] }, 2],
    ['openai-chat', { choices: { message: { content: 'ab' } } }, 0],
    ['openai-chat', 'none', 0],
    ['anthropic', { content: [{ text: 'ab' }, 'x'] }, 2],
    ['anthropic', { delta: { text: 'ab' }, content_block: { text: 'c' } }, 2],
    ['anthropic', { content_block: { text: 'c' } }, 1],
    ['anthropic', { content: 'abc' }, 0],
    ['anthropic', 'none', 0],
    ['bedrock', { delta: { text: 'ab' }, p: 'abc' }, 2],
    ['bedrock', { start: { toolUse: { name: 'f' } }, p: 'abc' }, 1],
    ['bedrock', { output: { message: { role: 'assistant', content: [{ text: 'ab' }] } } }, 2],
    ['bedrock', 'none', 0]
  ] as [Read, Json, number][])
    t.equal(protocols[name].answerBytes(body), bytes, `${name} ${JSON.stringify(body)}`)
})

const shown: ShownError = { status: 400, type: 'a', message: 'No.', code: 'c', param: undefined }

t.test('chat and converse: errors are told as they are', async (t) => {
  const { 'openai-chat': chat, bedrock } = protocols
  t.strictSame(JSON.stringify(chat.errorBody(shown)), '{"error":{"message":"No.","type":"a","code":"c"}}')
  t.strictSame(
    JSON.stringify(chat.errorBody({ ...shown, param: 'p' })),
    '{"error":{"message":"No.","type":"a","param":"p","code":"c"}}'
  )
  t.equal(chat.errorEvent(shown, 0), `data: ${JSON.stringify(chat.errorBody(shown))}\n\n`)
  t.strictSame(bedrock.errorBody(shown), { message: 'No.' })
  t.equal(bedrock.errorEvent(shown, 0), 'data: {"message":"No."}\n\n')
})

t.test('messages: errors have a type of the protocol, by their status', async (t) => {
  const { anthropic } = protocols
  const told = (more: Partial<ShownError>): Json => anthropic.errorBody({ ...shown, ...more })
  t.strictSame(told({}), { type: 'error', error: { type: 'invalid_request_error', message: 'No.' } })
  t.equal(anthropic.errorEvent(shown, 0), `event: error\ndata: ${JSON.stringify(told({}))}\n\n`)
  for (const [status, type] of [
    [400, 'invalid_request_error'],
    [401, 'authentication_error'],
    [402, 'billing_error'],
    [403, 'permission_error'],
    [404, 'not_found_error'],
    [409, 'conflict_error'],
    [413, 'request_too_large'],
    [429, 'rate_limit_error'],
    [499, 'invalid_request_error'],
    [500, 'api_error'],
    [501, 'api_error'],
    [503, 'overloaded_error'],
    [504, 'timeout_error'],
    [529, 'overloaded_error']
  ] as const)
    t.equal(told({ status }).error.type, type, String(status))
  t.strictSame(anthropic.statuses, { 503: 529 })
  t.equal(told({ status: 429, type: 'quota_error' }).error.type, 'billing_error')
  t.equal(told({ code: 'context_length_exceeded' }).error.message, 'prompt is too long: No.')
  const long = 'The Prompt is too long.'
  t.equal(told({ code: 'context_length_exceeded', message: long }).error.message, long)
  t.equal(told({ message: long }).error.message, long)
})

t.test('messages: what is told of threads goes both ways', async (t) => {
  const { anthropic } = protocols
  const details = (code: string, param?: string): Json =>
    (anthropic.errorBody({ ...shown, code, param }) as Json).error.details
  t.strictSame(details('thread_not_found'), { error_code: 'thread_not_found' })
  t.strictSame(details('thread_unsupported_request', 'a b'), {
    error_code: 'thread_unsupported_request',
    unsupported: ['a', 'b']
  })
  t.strictSame(details('thread_unsupported_request').unsupported, [])
  t.strictSame(details('unsupported_parameter', 'thread'), {
    error_code: 'thread_unsupported_request',
    unsupported: ['thread']
  })
  t.equal(details('unsupported_parameter', 'other'), undefined)
  t.equal(details('other', 'thread'), undefined)
  const read = (details: Json): Json => {
    const { code, param } = anthropic.readError({ error: { message: 'No.', code: 'own', param: 'p', details } })
    return { code, param }
  }
  t.strictSame(read(undefined), { code: 'own', param: 'p' })
  t.strictSame(read({ error_code: 1 }), { code: 'own', param: 'p' })
  t.strictSame(read({ error_code: 'thread_not_found' }), { code: 'thread_not_found', param: 'p' })
  t.strictSame(read({ error_code: 'x', unsupported: ['a', 'b'] }), { code: 'x', param: 'a b' })
})

t.test('events are named by their types', async (t) => {
  const { anthropic, bedrock } = protocols
  t.equal(anthropic.eventName!('{"type":"ping"}'), 'ping')
  t.equal(anthropic.eventName!('[1]'), '')
  for (const [event, name] of [
    [{ __type: 'A', delta: {} }, 'error'],
    [{ delta: {}, contentBlockIndex: 0 }, 'contentBlockDelta'],
    [{ start: {}, contentBlockIndex: 0 }, 'contentBlockStart'],
    [{ role: 'assistant' }, 'messageStart'],
    [{ stopReason: 'end_turn' }, 'messageStop'],
    [{ usage: {} }, 'metadata'],
    [{ metrics: {} }, 'metadata'],
    [{ contentBlockIndex: 0 }, 'contentBlockStop'],
    [{}, ''],
    ['none', '']
  ] as const)
    t.equal(bedrock.eventName!(JSON.stringify(event)), name)
})
