// How answers end: a cut answer is never told as a whole one, and a reason that nobody knows is not made a known one.
import t from 'tap'
import { Untranslatable } from '../../core/protocols/translation/translation.ts'
import { answered, streamed } from '../kit/pairs.ts'

type Json = any

const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }

/** A whole answer of text that ended for this reason, or for none. */
const whole: Readonly<Record<string, (reason: Json, text?: string) => Json>> = {
  C: (finish_reason, content = 'Yes') => ({
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason }]
  }),
  R: (reason, text = 'Yes') => ({
    id: 'r',
    status: reason === 'completed' ? 'completed' : 'incomplete',
    incomplete_details: reason === 'completed' ? null : { reason },
    output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text, annotations: [] }] }],
    usage
  }),
  M: (stop_reason, text = 'Yes') => ({
    type: 'message',
    content: [{ type: 'text', text }],
    stop_reason,
    usage: { input_tokens: 1, output_tokens: 1 }
  }),
  G: (finishReason, text = 'Yes') => ({ candidates: [{ content: { parts: [{ text }] }, finishReason }] })
}

/** The same as events. */
const events: Readonly<Record<string, (reason: Json) => Json[]>> = {
  C: (reason) => [
    { choices: [{ index: 0, delta: { content: 'Yes' } }] },
    { choices: [{ index: 0, delta: {}, finish_reason: reason }] }
  ],
  R: (reason) => [
    { type: 'response.created', response: { id: 'r', status: 'in_progress' } },
    { type: `response.${reason === 'completed' ? reason : 'incomplete'}`, response: whole['R']!(reason) }
  ],
  M: (reason) => [
    { type: 'message_start', message: { id: 'm', usage: { input_tokens: 1, output_tokens: 1 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'Yes' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: reason }, usage: { output_tokens: 1 } },
    { type: 'message_stop' }
  ],
  G: (reason) => [
    whole['G']!(undefined),
    { candidates: [{ content: { parts: [{ text: '' }] }, finishReason: reason }] }
  ]
}

/** What a client hears of the end. */
const ended: Readonly<Record<string, { whole(body: Json): string; stream(seen: Json[]): string }>> = {
  C: {
    whole: ({ choices }) => choices[0].finish_reason,
    stream: (seen) => seen.findLast((event) => event.choices?.[0]?.finish_reason).choices[0].finish_reason
  },
  R: {
    whole: ({ status, incomplete_details: details }) => `${status} ${details?.reason}`,
    stream: (seen) => `${seen.at(-1).response.status} ${seen.at(-1).response.incomplete_details?.reason}`
  },
  M: {
    whole: ({ stop_reason: reason }) => reason,
    stream: (seen) => seen.at(-2).delta.stop_reason
  },
  G: {
    whole: ({ candidates }) => candidates[0].finishReason,
    stream: (seen) => seen.at(-1).candidates[0].finishReason
  }
}

const normal = { C: 'stop', R: 'completed undefined', M: 'end_turn', G: 'STOP' }
const length = { C: 'length', R: 'incomplete max_output_tokens', M: 'max_tokens', G: 'MAX_TOKENS' }
const filtered = { C: 'content_filter', R: 'incomplete content_filter', M: 'refusal', G: 'SAFETY' }
/** A reason that its vendor alone knows, by the name it has there. */
const own = (word: string): Record<string, string> => ({ C: word, R: `incomplete ${word}`, M: word, G: 'OTHER' })

/** By upstream and reason: what clients hear, or that there is no answer. */
const becomes: Readonly<Record<string, Record<string, Record<string, string> | 'error'>>> = {
  C: {
    stop: normal,
    eos: normal,
    end_turn: normal,
    STOP: normal,
    COMPLETE: normal,
    eos_token: normal,
    length,
    model_length: length,
    MAX_TOKENS: length,
    model_context_window_exceeded: length,
    content_filter: filtered,
    sensitive: filtered,
    insufficient_system_resource: 'error',
    network_error: 'error',
    abort: 'error',
    error: 'error',
    time_limit: own('time_limit'),
    brand_new_reason: own('brand_new_reason')
  },
  R: {
    completed: normal,
    max_output_tokens: length,
    content_filter: filtered,
    brand_new_reason: own('brand_new_reason')
  },
  M: {
    end_turn: normal,
    max_tokens: length,
    model_context_window_exceeded: length,
    refusal: filtered,
    brand_new_reason: own('brand_new_reason')
  },
  G: {
    STOP: normal,
    MAX_TOKENS: length,
    SAFETY: filtered,
    LANGUAGE: filtered,
    RECITATION: filtered,
    OTHER: own('OTHER'),
    NO_IMAGE: own('NO_IMAGE'),
    MALFORMED_FUNCTION_CALL: 'error',
    TOO_MANY_TOOL_CALLS: 'error',
    UNEXPECTED_TOOL_CALL: 'error',
    MALFORMED_RESPONSE: 'error',
    BRAND_NEW_REASON: own('BRAND_NEW_REASON')
  }
}

const known = new Set(['time_limit', 'OTHER', 'NO_IMAGE'])

for (const [upstream, reasons] of Object.entries(becomes)) {
  t.test(`each reason of ${upstream} is told to clients of all others as what it is`, async (t) => {
    for (const [reason, heard] of Object.entries(reasons))
      for (const client of 'CRMG') {
        if (client === upstream) continue
        const pair = `${upstream}⇒${client}`
        const both = {
          whole: () => answered(pair, whole[upstream]!(reason)),
          stream: () => streamed(pair, events[upstream]!(reason))
        }
        if (heard === 'error') {
          for (const [how, make] of Object.entries(both))
            t.throws(make, { code: 'upstream_bad_response' }, `${pair} ${reason} ${how}`)
          continue
        }
        const [body, seen] = [both.whole(), both.stream()]
        t.equal(ended[client]!.whole(body.body), heard[client], `${pair} ${reason}`)
        t.equal(ended[client]!.stream(seen.events), heard[client], `${pair} ${reason}, streamed`)
        const unknown = heard['C'] === reason && heard['G'] === 'OTHER' && !known.has(reason)
        for (const { unknownFinishes } of [body, seen])
          t.same(unknownFinishes, unknown ? [reason] : [], `${pair} ${reason}`)
      }
  })
}

t.test('a word of an upstream is no more than a word', async (t) => {
  const odd = `"},{"x":${'y'.repeat(100)}`
  const { body } = answered('C⇒M', whole['C']!(odd))
  t.match(body.stop_reason, /^[\w.-]{64}$/)
  t.doesNotThrow(() => streamed('M⇒C', events['M']!(odd)))
})

t.test('a refusal is none that Gemini calls a STOP, and what was said of it is kept', async (t) => {
  const refused = {
    C: {
      choices: [
        { index: 0, message: { role: 'assistant', content: null, refusal: 'I cannot.' }, finish_reason: 'stop' }
      ]
    },
    R: {
      id: 'r',
      status: 'completed',
      output: [{ type: 'message', content: [{ type: 'refusal', refusal: 'I cannot.' }] }],
      usage
    },
    M: { ...whole['M']!('refusal', 'I can'), stop_details: { type: 'refusal', explanation: 'I cannot.' } }
  }
  for (const [upstream, answer] of Object.entries(refused)) {
    const { candidates } = answered(`${upstream}⇒G`, answer).body
    t.match(candidates[0], { finishReason: 'SAFETY' }, upstream)
    t.match(JSON.stringify(candidates[0].content.parts), 'I cannot.', upstream)
  }
  const streams = {
    C: [
      { choices: [{ index: 0, delta: { refusal: 'I cannot.' } }] },
      { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
    ],
    R: [
      { type: 'response.created', response: { id: 'r' } },
      { type: 'response.completed', response: refused.R }
    ],
    M: events['M']!('refusal')
  }
  for (const [upstream, seen] of Object.entries(streams)) {
    t.match(streamed(`${upstream}⇒G`, seen).events.at(-1).candidates[0], { finishReason: 'SAFETY' }, upstream)
  }
})

t.test('calls that came whole before an answer was cut stay calls, and the cut is told', async (t) => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }
  const answer = { choices: [{ index: 0, message: { tool_calls: [call] }, finish_reason: 'time_limit' }] }
  t.match(answered('C⇒M', answer).body, { content: [{ type: 'tool_use', input: { a: 1 } }], stop_reason: 'time_limit' })
  t.match(answered('C⇒R', answer).body, {
    status: 'incomplete',
    output: [{ type: 'function_call', status: 'completed' }]
  })
  const error = (): unknown => answered('G⇒C', whole['G']!('MALFORMED_FUNCTION_CALL'))
  t.throws(
    error,
    new Untranslatable('upstream_bad_response', 'The upstream gave its answer up (MALFORMED_FUNCTION_CALL).')
  )
})
