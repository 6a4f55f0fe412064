// Reads streams with an independent parser, and checks chat streams against the grammar that the SDKs of vendors rely
// on.
import assert from 'node:assert/strict'
import { createParser } from 'eventsource-parser'

/** One event as a conforming client sees it. */
export interface ClientEvent {
  event: string | undefined
  data: string
  id: string | undefined
}

/** The events of a stream. An event without its blank line does not count. */
export function readEvents(stream: Buffer | string): ClientEvent[] {
  const found: ClientEvent[] = []
  const parser = createParser({ onEvent: ({ event, data, id }) => found.push({ event, data, id }) })
  parser.feed(new TextDecoder().decode(typeof stream === 'string' ? Buffer.from(stream) : stream))
  return found
}

/** What a chat stream should contain. */
export interface ChatExpectation {
  /** The number of choices that the client asked for. */
  n?: number
  /** Whether the client asked for usage. */
  usage?: boolean
  /** Whether the stream should end with an error event instead of `[DONE]`. */
  error?: boolean
}

/** The answer that the events of a chat stream add up to. */
export interface ChatAnswer {
  id: string
  model: string
  choices: ChatAnswerChoice[]
  usage: Record<string, any> | undefined
  /** The payload of the error event. */
  error: { message: string; type: string; code: string; param?: string } | undefined
}

/** One choice of an answer. */
export interface ChatAnswerChoice {
  role: string | undefined
  content: string
  reasoning: string
  toolCalls: { id: string; name: string; arguments: string }[]
  finish: string | undefined
}

/**
 * Checks a whole stream: events with nothing but `data:`, one id, every choice with a role first and one finish reason
 * last, tool calls by index, usage after the choices and only when asked for, and `[DONE]` once at the end, or an error
 * event at the end.
 * @throws AssertionError
 */
export function checkChatStream(
  stream: Buffer | string,
  { n = 1, usage = false, error = false }: ChatExpectation = {}
): ChatAnswer {
  const events = readEvents(stream)
  const text = Buffer.from(stream).toString('utf8')
  assert.ok(!text.includes('\uFFFD'), 'the stream has replacement characters')
  assert.ok(events.length > 0, 'the stream has no events')
  const answer: ChatAnswer = { id: '', model: '', choices: [], usage: undefined, error: undefined }
  const last = events.pop()!
  for (const { event, data } of events) {
    assert.equal(event, undefined, 'chat events have no name')
    assert.notEqual(data, '[DONE]', '[DONE] comes last')
    const chunk = parse(data)
    assert.ok(!('error' in chunk), 'an error comes last')
    addChunk(answer, chunk, n, usage)
  }
  if (error) {
    const { error: shown } = parse(last.data)
    assert.ok(shown, `the stream ends in an error event, not in ${last.data}`)
    for (const field of ['message', 'type', 'code'])
      assert.equal(typeof shown[field], 'string', `error.${field} is a string`)
    answer.error = shown
    return answer
  }
  assert.equal(last.data, '[DONE]', 'the stream ends in [DONE]')
  assert.equal(answer.choices.length, n, 'all choices were answered')
  for (const [i, choice] of answer.choices.entries()) assert.ok(choice?.finish, `choice ${i} has a finish reason`)
  assert.equal(answer.usage !== undefined, usage, usage ? 'usage was asked for' : 'usage was not asked for')
  return answer
}

function parse(data: string): Record<string, any> {
  const value: unknown = JSON.parse(data)
  assert.ok(typeof value === 'object' && value !== null && !Array.isArray(value), 'an event is a JSON object')
  return value
}

function addChunk(answer: ChatAnswer, chunk: Record<string, any>, n: number, usage: boolean): void {
  assert.equal(chunk['object'], 'chat.completion.chunk')
  answer.id ||= chunk['id']
  answer.model ||= chunk['model']
  assert.equal(chunk['id'], answer.id, 'one id for the whole stream')
  assert.equal(chunk['model'], answer.model, 'one model for the whole stream')
  assert.ok(Array.isArray(chunk['choices']), 'every chunk has choices')
  if (!usage) assert.ok(!('usage' in chunk), 'no usage that was not asked for, not even null')
  if (chunk['choices'].length === 0) {
    assert.ok(usage && chunk['usage'], 'an empty list of choices is for usage')
    assert.equal(answer.usage, undefined, 'usage comes once')
    assert.ok(
      answer.choices.every((choice) => choice.finish),
      'usage comes after the choices'
    )
    answer.usage = chunk['usage']
    return
  }
  assert.equal(answer.usage, undefined, 'usage comes after the choices')
  for (const choice of chunk['choices']) addDelta(answer, choice, n)
}

function addDelta(answer: ChatAnswer, { index, delta, finish_reason: finish }: Record<string, any>, n: number): void {
  assert.ok(Number.isInteger(index) && index >= 0 && index < n, `choice index ${index} is below ${n}`)
  const choice = (answer.choices[index] ??= {
    role: undefined,
    content: '',
    reasoning: '',
    toolCalls: [],
    finish: undefined
  })
  assert.equal(choice.finish, undefined, 'nothing follows a finish reason')
  if (choice.role === undefined) {
    assert.equal(delta.role, 'assistant', 'the first chunk of a choice has its role')
    choice.role = delta.role
  }
  choice.content += delta.content ?? ''
  choice.reasoning += delta.reasoning_content ?? ''
  for (const call of delta.tool_calls ?? []) {
    assert.ok(Number.isInteger(call.index) && call.index >= 0 && call.index < 128, 'a tool call has an index')
    const known = choice.toolCalls[call.index]
    if (!known) {
      assert.equal(call.index, choice.toolCalls.length, 'tool calls are numbered without gaps')
      assert.ok(call.id && call.type === 'function' && call.function.name, 'a tool call opens with id, type and name')
      choice.toolCalls.push({ id: call.id, name: call.function.name, arguments: call.function.arguments ?? '' })
    } else {
      assert.ok(call.function.name === undefined || call.function.name === known.name, 'a tool call keeps its name')
      known.arguments += call.function.arguments ?? ''
    }
  }
  if (finish != null) {
    assert.equal(typeof finish, 'string')
    choice.finish = finish
  }
}
