// Converts a response between its two forms: whole, and a stream of events.
import { asObject, asObjects } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Collector } from '../protocol.ts'

type Fields = Record<string, unknown>

/** The payloads of the events that this response would have been streamed as. */
export function chunksOf(answer: unknown): string[] {
  const response = asObject(answer) ?? {}
  const begun = { ...response, status: 'in_progress', output: [], usage: null, incomplete_details: null }
  const events: Fields[] = [
    { type: 'response.created', response: begun },
    { type: 'response.in_progress', response: begun }
  ]
  asObjects(response['output']).forEach((item, output_index) => {
    for (const event of itemEvents(item, output_index)) events.push(event)
  })
  const status = response['status']
  const type =
    status === 'incomplete' || status === 'cancelled' ? 'incomplete' : status === 'failed' ? 'failed' : 'completed'
  events.push({ type: `response.${type}`, response })
  return events.map(({ type, ...rest }, sequence_number) => JSON.stringify({ type, sequence_number, ...rest }))
}

function itemEvents(item: JsonObject, output_index: number): Fields[] {
  const at = { item_id: item['id'], output_index }
  return [
    { type: 'response.output_item.added', output_index, item: { ...item, ...emptied(item) } },
    ...contentEvents(item, at),
    { type: 'response.output_item.done', output_index, item }
  ]
}

/** The members of an item that are empty when it begins. */
function emptied(item: JsonObject): Fields {
  switch (item['type']) {
    case 'message':
      return { status: 'in_progress', content: [] }
    case 'reasoning':
      return { summary: [] }
    case 'function_call':
      return { status: 'in_progress', arguments: '' }
    case 'custom_tool_call':
      return { input: '' }
    default:
      return {}
  }
}

function contentEvents(item: JsonObject, at: Fields): Fields[] {
  switch (item['type']) {
    case 'message':
      return asObjects(item['content']).flatMap((part, content_index) => partEvents(part, { ...at, content_index }))
    case 'reasoning':
      return asObjects(item['summary']).flatMap((part, summary_index) => summaryEvents(part, { ...at, summary_index }))
    case 'function_call':
      return [
        { type: 'response.function_call_arguments.delta', ...at, delta: item['arguments'] },
        { type: 'response.function_call_arguments.done', ...at, arguments: item['arguments'], name: item['name'] }
      ]
    case 'custom_tool_call':
      return [
        { type: 'response.custom_tool_call_input.delta', ...at, delta: item['input'] },
        { type: 'response.custom_tool_call_input.done', ...at, input: item['input'] }
      ]
    default:
      return []
  }
}

function partEvents(part: JsonObject, at: Fields): Fields[] {
  const added = { type: 'response.content_part.added', ...at }
  const done = { type: 'response.content_part.done', ...at, part }
  if (part['type'] === 'refusal') {
    const { refusal } = part
    return [
      { ...added, part: { ...part, refusal: '' } },
      { type: 'response.refusal.delta', ...at, delta: refusal },
      { type: 'response.refusal.done', ...at, refusal },
      done
    ]
  }
  const { text, logprobs = [] } = part
  const annotations = asObjects(part['annotations']).map((annotation, annotation_index) => ({
    type: 'response.output_text.annotation.added',
    ...at,
    annotation_index,
    annotation
  }))
  return [
    { ...added, part: { ...part, text: '', annotations: [], logprobs: [] } },
    { type: 'response.output_text.delta', ...at, delta: text, logprobs },
    ...annotations,
    { type: 'response.output_text.done', ...at, text, logprobs },
    done
  ]
}

function summaryEvents(part: JsonObject, at: Fields): Fields[] {
  const { text } = part
  return [
    { type: 'response.reasoning_summary_part.added', ...at, part: { ...part, text: '' } },
    { type: 'response.reasoning_summary_text.delta', ...at, delta: text },
    { type: 'response.reasoning_summary_text.done', ...at, text },
    { type: 'response.reasoning_summary_part.done', ...at, part }
  ]
}

/** The statuses of a response that is still being made. */
const unfinished: ReadonlySet<unknown> = new Set(['queued', 'in_progress'])

/**
 * Collects the response from a stream. Its last event has the whole response; some upstreams leave out the items there,
 * so these are collected.
 */
export class ResponseCollector implements Collector {
  #response: unknown
  readonly #items: JsonObject[] = []

  add(payload: unknown): void {
    const event = asObject(payload)
    const item = event?.['type'] === 'response.output_item.done' ? asObject(event['item']) : undefined
    if (item) this.#items.push(item)
    const response = asObject(event?.['response'])
    if (!response || unfinished.has(response['status'])) return
    const told = asObjects(response['output']).length > 0
    this.#response = told ? response : { ...response, output: this.#items }
  }

  result(): unknown {
    return this.#response
  }
}
