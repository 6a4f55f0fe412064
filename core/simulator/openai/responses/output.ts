// The output items of a response: reasoning, a message, and then calls.
import type { Fields } from '../../fields.ts'
import type { Composition, MadeCall } from '../../words/composition.ts'
import { sign } from '../../words/signature.ts'
import { joined } from '../../words/text.ts'
import type { Text } from '../../words/text.ts'
import type { ResponseRequest } from './request.ts'

/** An item: as it is added, its events in a stream, and as it is when done. */
export interface OutputItem {
  id: string
  added: Fields
  /** The events of this item, without `item_id` and `output_index`. */
  events(): Iterable<Fields>
  done(): Fields
}

type Status = 'completed' | 'incomplete'

/** `base`: makes the ids of the items differ from those of other responses. */
export function outputOf(
  request: ResponseRequest,
  { reasoning, text, calls }: Composition,
  base: string
): OutputItem[] {
  const { directive } = request
  const items: OutputItem[] = []
  const id = (prefix: string): string => `${prefix}_${base}${items.length}`
  if (reasoning.tokens > 0) items.push(reasoningItem(id('rs'), request, reasoning))
  if (text && (text.tokens > 0 || calls.length === 0))
    items.push(messageItem(id('msg'), text, directive.refusal === true))
  for (const made of calls)
    items.push(callItem(id(made.kind === 'function' ? 'fc' : 'ctc'), `call_${base}${items.length}`, made))
  return items
}

function reasoningItem(id: string, { summarized, sealed, digest }: ResponseRequest, text: Text): OutputItem {
  const whole = joined(text)
  const item = (summary: readonly Fields[]): Fields => ({
    id,
    type: 'reasoning',
    summary,
    ...(sealed && { encrypted_content: sign(digest, '') })
  })
  return {
    id,
    added: item([]),
    *events() {
      if (!summarized) return
      const at = { summary_index: 0 }
      yield { type: 'response.reasoning_summary_part.added', ...at, part: { type: 'summary_text', text: '' } }
      for (const delta of text.pieces()) yield { type: 'response.reasoning_summary_text.delta', ...at, delta }
      yield { type: 'response.reasoning_summary_text.done', ...at, text: whole }
      yield { type: 'response.reasoning_summary_part.done', ...at, part: { type: 'summary_text', text: whole } }
    },
    done: () => item(summarized ? [{ type: 'summary_text', text: whole }] : [])
  }
}

function messageItem(id: string, text: Text, refused: boolean): OutputItem {
  const item = (status: string, content: readonly Fields[]): Fields => ({
    id,
    type: 'message',
    status,
    role: 'assistant',
    content
  })
  const part = (said: string): Fields =>
    refused ? { type: 'refusal', refusal: said } : { type: 'output_text', text: said, annotations: [], logprobs: [] }
  const status: Status = text.cut ? 'incomplete' : 'completed'
  return {
    id,
    added: item('in_progress', []),
    *events() {
      const at = { content_index: 0 }
      const family = refused ? 'response.refusal' : 'response.output_text'
      const more = refused ? {} : { logprobs: [] }
      yield { type: 'response.content_part.added', ...at, part: part('') }
      for (const delta of text.pieces()) yield { type: `${family}.delta`, ...at, delta, ...more }
      const whole = joined(text)
      yield { type: `${family}.done`, ...at, ...(refused ? { refusal: whole } : { text: whole }), ...more }
      yield { type: 'response.content_part.done', ...at, part: part(whole) }
    },
    done: () => item(status, [part(joined(text))])
  }
}

function callItem(id: string, callId: string, { kind, name, input }: MadeCall): OutputItem {
  const functional = kind === 'function'
  const item = (status: string, said: string): Fields =>
    functional
      ? { id, type: 'function_call', status, arguments: said, call_id: callId, name }
      : { id, type: 'custom_tool_call', status, call_id: callId, name, input: said }
  const family = functional ? 'response.function_call_arguments' : 'response.custom_tool_call_input'
  return {
    id,
    added: item('in_progress', ''),
    *events() {
      for (const delta of input.pieces()) yield { type: `${family}.delta`, delta }
      const whole = joined(input)
      yield { type: `${family}.done`, ...(functional ? { arguments: whole, name } : { input: whole }) }
    },
    done: () => item(input.cut ? 'incomplete' : 'completed', joined(input))
  }
}
