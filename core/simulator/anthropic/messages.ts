// POST /v1/messages and /v1/messages/count_tokens: a whole message, or a stream of its blocks.
import { jsonAnswer, streamAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { eventWriter } from '../events.ts'
import type { Counts } from '../stats.ts'
import { checkSize, compose } from '../words/composition.ts'
import type { Composition, MadeCall } from '../words/composition.ts'
import { countsOf } from '../words/counts.ts'
import { joined } from '../words/text.ts'
import { readMessageRequest } from './message-request.ts'
import type { MessageRequest } from './message-request.ts'
import { sign } from '../words/signature.ts'

/** https://platform.claude.com/docs/en/api/messages */
export const messages: Endpoint = { method: 'POST', path: '/v1/messages', answer }

/** Free, so nothing is added to the statistics. */
export const countMessageTokens: Endpoint = {
  method: 'POST',
  path: '/v1/messages/count_tokens',
  answer(call) {
    const { promptTokens, directive } = readMessageRequest(call, true)
    return jsonAnswer({ input_tokens: promptTokens }, directive)
  }
}

function answer(call: Call): Answer {
  const request = readMessageRequest(call)
  const { directive, stream } = request
  checkSize(directive, stream, 1)
  const composition = compose(request)
  const counts = countsOf(request, [composition])
  if (stream) return streamAnswer(frames(request, composition, counts), directive, counts)
  const content = blocksOf(request, composition).map(({ start, whole }) => ({ ...start, ...whole() }))
  return jsonAnswer(
    messageOf(request, { content, ...stopOf(request, composition), ...usageOf(request, counts, 'whole') }),
    directive,
    counts
  )
}

function messageOf({ digest, model }: MessageRequest, more: object): object {
  return {
    id: `msg_${digest.slice(0, 24)}`,
    type: 'message',
    role: 'assistant',
    model,
    container: null,
    diagnostics: null,
    ...more
  }
}

/** Why the message ended; without a composition it has not, and all members are null. */
function stopOf(
  { directive }: MessageRequest,
  composition?: Composition
): { stop_reason: string | null; stop_sequence: string | null; stop_details: object | null } {
  const sequence = composition?.text?.stopped ?? null
  const reason = !composition
    ? null
    : composition.cut
      ? 'max_tokens'
      : composition.calls.length > 0
        ? 'tool_use'
        : sequence === null
          ? 'end_turn'
          : 'stop_sequence'
  const usual = composition && directive.refusal ? 'refusal' : reason
  const shown = composition && directive.finish !== undefined ? directive.finish : usual
  return {
    stop_reason: shown,
    stop_sequence: sequence,
    stop_details: shown === 'refusal' ? { type: 'refusal', category: null, explanation: null } : null
  }
}

/** The member `usage`, or nothing when a directive wants none: of a whole message, or at the end of a stream. */
function usageOf({ directive, cacheFor }: MessageRequest, counts: Counts, part: 'whole' | 'end'): object {
  if (directive.usage !== undefined) return directive.usage === null ? {} : { usage: directive.usage }
  const { prompt = 0, cached = 0, written = 0, completion = 0, reasoning = 0 } = counts
  const end = {
    input_tokens: prompt - cached - written,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: cached,
    output_tokens: completion,
    output_tokens_details: reasoning > 0 ? { thinking_tokens: reasoning } : null,
    server_tool_use: null
  }
  if (part === 'end') return { usage: end }
  const lifetimes = {
    ephemeral_5m_input_tokens: cacheFor === '5m' ? written : 0,
    ephemeral_1h_input_tokens: cacheFor === '1h' ? written : 0
  }
  return { usage: { ...end, cache_creation: lifetimes, inference_geo: null, service_tier: 'standard', speed: null } }
}

/** A block: how it begins, its deltas in a stream, and what it adds when it is whole. */
interface BlockPlan {
  start: object
  deltas(): Iterable<object>
  whole(): object
}

function blocksOf(request: MessageRequest, { reasoning, text, calls }: Composition): BlockPlan[] {
  const { directive, omitted, digest } = request
  const plans: BlockPlan[] = []
  if (reasoning.tokens > 0 && directive.redacted) {
    plans.push({ start: { type: 'redacted_thinking', data: sign(digest, '') }, deltas: () => [], whole: () => ({}) })
  } else if (reasoning.tokens > 0) {
    const shown = omitted ? '' : joined(reasoning)
    const signature = sign(digest, shown)
    plans.push({
      start: { type: 'thinking', thinking: '', signature: '' },
      *deltas() {
        if (!omitted) for (const thinking of reasoning.pieces()) yield { type: 'thinking_delta', thinking }
        yield { type: 'signature_delta', signature }
      },
      whole: () => ({ thinking: shown, signature })
    })
  }
  if (text && text.tokens > 0) {
    plans.push({
      start: { type: 'text', text: '', citations: null },
      *deltas() {
        for (const piece of text.pieces()) yield { type: 'text_delta', text: piece }
      },
      whole: () => ({ text: joined(text) })
    })
  }
  return [...plans, ...calls.map(callPlan)]
}

function callPlan({ serial, name, input, value }: MadeCall): BlockPlan {
  const empty = joined(input) === '{}'
  return {
    start: { type: 'tool_use', id: `toolu_${serial}`, name, input: {}, caller: { type: 'direct' } },
    *deltas() {
      // A call without arguments has only an empty delta.
      yield { type: 'input_json_delta', partial_json: '' }
      if (!empty) for (const piece of input.pieces()) yield { type: 'input_json_delta', partial_json: piece }
    },
    // Arguments that were cut are not an object.
    whole: () => ({ input: input.cut ? {} : value })
  }
}

function* frames(request: MessageRequest, composition: Composition, counts: Counts): Generator<string> {
  const { directive } = request
  const write = eventWriter(directive)
  const event = (type: string, more: object): string => write(JSON.stringify({ type, ...more }), type)
  if (directive.role !== false) {
    const begun = usageOf(
      request,
      { ...counts, completion: Math.min(counts.completion ?? 0, 1), reasoning: 0 },
      'whole'
    )
    yield event('message_start', { message: messageOf(request, { content: [], ...stopOf(request), ...begun }) })
  }
  for (const [index, { start, deltas }] of blocksOf(request, composition).entries()) {
    yield event('content_block_start', { index, content_block: start })
    if (index === 0) yield event('ping', {})
    for (const delta of deltas()) yield event('content_block_delta', { index, delta })
    yield event('content_block_stop', { index })
  }
  yield event('message_delta', {
    delta: { ...stopOf(request, composition), container: null },
    ...usageOf(request, counts, 'end')
  })
  if (directive.done !== false) yield event('message_stop', {})
}
