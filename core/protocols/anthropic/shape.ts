// Converts an Anthropic message between its two forms: whole, and a stream of events.
import { parseJson } from '../canonical/json.ts'
import { asObject, asObjects, asText, isDeep } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Collector } from '../protocol.ts'

type Fields = Record<string, unknown>

/** Members of a block that are streamed as deltas, and the types of these deltas. */
const growing: Readonly<Record<string, string>> = { text: 'text_delta', thinking: 'thinking_delta' }

/** The payloads of the events that this message would have been streamed as. */
export function chunksOf(answer: unknown): string[] {
  const { content, stop_reason, stop_sequence, stop_details, usage, ...head } = asObject(answer) ?? {}
  const events: Fields[] = [
    { type: 'message_start', message: { ...head, content: [], stop_reason: null, stop_sequence: null, usage } }
  ]
  for (const [index, block] of asObjects(content).entries())
    for (const event of blockEvents(block, index)) events.push(event)
  const delta = {
    stop_reason: stop_reason ?? 'end_turn',
    stop_sequence: stop_sequence ?? null,
    ...(stop_details !== undefined && { stop_details })
  }
  events.push({ type: 'message_delta', delta, usage: usage ?? { output_tokens: 0 } }, { type: 'message_stop' })
  return events.map((event) => JSON.stringify(event))
}

function blockEvents(block: JsonObject, index: number): Fields[] {
  const type = asText(block['type'])
  const start = (content_block: unknown): Fields => ({ type: 'content_block_start', index, content_block })
  const delta = (inner: unknown): Fields => ({ type: 'content_block_delta', index, delta: inner })
  const stop: Fields = { type: 'content_block_stop', index }
  const grows = growing[type]
  if (grows !== undefined) {
    const { citations, signature, ...rest } = block
    const begun = {
      ...rest,
      [type]: '',
      ...(signature !== undefined && { signature: '' }),
      ...(citations !== undefined && { citations: null })
    }
    const events = [start(begun), delta({ type: grows, [type]: block[type] })]
    for (const citation of asObjects(citations)) events.push(delta({ type: 'citations_delta', citation }))
    if (signature !== undefined) events.push(delta({ type: 'signature_delta', signature }))
    return [...events, stop]
  }
  const input = asObject(block['input'])
  if (!input) return [start(block), stop]
  return [
    start({ ...block, input: {} }),
    delta({ type: 'input_json_delta', partial_json: JSON.stringify(input) }),
    stop
  ]
}

/** Collects the events of a stream into the message that the call would have returned without streaming. */
export class MessageCollector implements Collector {
  #message: Fields = {}
  readonly #blocks = new Map<unknown, Fields>()
  /** The JSON text of each call's input so far. */
  readonly #inputs = new Map<unknown, string>()

  add(payload: unknown): void {
    const event = asObject(payload)
    if (!event) return
    const index = event['index']
    switch (event['type']) {
      case 'message_start':
        this.#message = { ...asObject(event['message']) }
        break
      case 'content_block_start':
        this.#blocks.set(index, { ...asObject(event['content_block']) })
        break
      case 'content_block_delta':
        this.#grow(index, asObject(event['delta']) ?? {})
        break
      case 'message_delta': {
        const usage: Fields = { ...asObject(this.#message['usage']) }
        for (const [key, value] of Object.entries(asObject(event['usage']) ?? {})) if (value != null) usage[key] = value
        this.#message = { ...this.#message, ...asObject(event['delta']), usage }
      }
    }
  }

  result(): unknown {
    const cut = this.#message['stop_reason'] === 'max_tokens'
    const content: Fields[] = []
    for (const [index, block] of this.#blocks) {
      const input = this.#inputs.get(index)
      try {
        const value = input === undefined ? undefined : parseJson(input)
        if (isDeep(value)) return undefined
        content.push(value === undefined ? block : { ...block, input: value })
      } catch {
        // A call that was cut off is left out: its arguments are not known.
        if (!cut) return undefined
      }
    }
    return { ...this.#message, content }
  }

  #grow(index: unknown, { type, ...delta }: JsonObject): void {
    const block = this.#blocks.get(index)
    if (!block) return
    if (type === 'input_json_delta')
      this.#inputs.set(index, (this.#inputs.get(index) ?? '') + asText(delta['partial_json']))
    else if (type === 'citations_delta')
      block['citations'] = [
        ...(Array.isArray(block['citations']) ? (block['citations'] as unknown[]) : []),
        delta['citation']
      ]
    else {
      for (const [key, value] of Object.entries(delta)) {
        // A signature is sent once, as a whole.
        block[key] = typeof value === 'string' && key !== 'signature' ? asText(block[key]) + value : value
      }
    }
  }
}
