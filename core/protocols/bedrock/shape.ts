// Converts an answer of Converse between its two forms: whole, and a stream of events.
import { parseJson } from '../canonical/json.ts'
import { asObject, asObjects, asText, isDeep } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Collector } from '../protocol.ts'
import { typeOf } from './event-type.ts'

type Fields = Record<string, unknown>

/** The payloads of the events that this answer would have been streamed as. */
export function chunksOf(answer: unknown): string[] {
  const { output, stopReason, usage, metrics } = asObject(answer) ?? {}
  const { role, content } = asObject(asObject(output)?.['message']) ?? {}
  const events: Fields[] = [{ role: role ?? 'assistant' }]
  asObjects(content).forEach((block, contentBlockIndex) => {
    for (const event of blockEvents(block)) events.push({ contentBlockIndex, ...event })
    events.push({ contentBlockIndex })
  })
  events.push({ stopReason: stopReason ?? 'end_turn' }, { usage, metrics: metrics ?? {} })
  return events.map((event) => JSON.stringify(event))
}

/** The events of a block, without its end. */
function blockEvents(block: JsonObject): Fields[] {
  const call = asObject(block['toolUse'])
  if (call) {
    const { input, ...toolUse } = call
    return [{ start: { toolUse } }, { delta: { toolUse: { input: JSON.stringify(input ?? {}) } } }]
  }
  const thoughts = asObject(block['reasoningContent'])
  if (thoughts) {
    const { reasoningText, ...others } = thoughts
    const { text, signature } = asObject(reasoningText) ?? {}
    const pieces = [{ ...(text !== undefined && { text }) }, { ...(signature !== undefined && { signature }) }, others]
    return pieces
      .filter((piece) => Object.keys(piece).length > 0)
      .map((reasoningContent) => ({ delta: { reasoningContent } }))
  }
  const cited = asObject(block['citationsContent'])
  if (cited) {
    const texts = asObjects(cited['content']).map((piece) => ({ delta: piece }))
    return [...texts, ...asObjects(cited['citations']).map((citation) => ({ delta: { citation } }))]
  }
  const image = asObject(block['image'])
  if (image)
    return [{ start: { image: { format: image['format'] } } }, { delta: { image: { source: image['source'] } } }]
  return [{ delta: block }]
}

/** What has come of a block. */
interface Begun {
  /** The block, but for what is put together below. */
  block: Fields
  text: string | undefined
  citations: JsonObject[]
  /** The JSON text of a call's input. */
  input: string | undefined
  thoughts: Fields | undefined
}

/** Collects the events of a stream into the answer that the call would have returned without streaming. */
export class ConverseCollector implements Collector {
  #role: unknown
  #stopReason: unknown
  #metadata: JsonObject = {}
  readonly #blocks = new Map<unknown, Begun>()

  add(payload: unknown): void {
    const event = asObject(payload)
    if (!event) return
    switch (typeOf('', event)) {
      case 'messageStart':
        this.#role = event['role']
        break
      case 'contentBlockStart':
        Object.assign(this.#block(event).block, asObject(event['start']))
        break
      case 'contentBlockDelta':
        grow(this.#block(event), asObject(event['delta']) ?? {})
        break
      case 'messageStop':
        this.#stopReason = event['stopReason']
        break
      case 'metadata':
        this.#metadata = event
    }
  }

  result(): unknown {
    const content: Fields[] = []
    for (const { block, text, citations, input, thoughts } of this.#blocks.values()) {
      const call = asObject(block['toolUse'])
      if (call) {
        const value = valueOf(input)
        if (value !== undefined && !isDeep(value)) content.push({ toolUse: { ...call, input: value } })
        // The arguments of a call that was cut off are not known.
        else if (this.#stopReason !== 'max_tokens') return undefined
      } else if (thoughts) content.push({ reasoningContent: thoughts })
      else if (citations.length > 0) content.push({ citationsContent: { content: [{ text: text ?? '' }], citations } })
      else content.push(text === undefined ? block : { text })
    }
    const { usage, metrics } = this.#metadata
    return { output: { message: { role: this.#role, content } }, stopReason: this.#stopReason, usage, metrics }
  }

  #block({ contentBlockIndex: index }: JsonObject): Begun {
    let begun = this.#blocks.get(index)
    if (!begun) {
      begun = { block: {}, text: undefined, citations: [], input: undefined, thoughts: undefined }
      this.#blocks.set(index, begun)
    }
    return begun
  }
}

function grow(begun: Begun, delta: JsonObject): void {
  const [call, thoughts, citation, image] = ['toolUse', 'reasoningContent', 'citation', 'image'].map((name) =>
    asObject(delta[name])
  )
  if (typeof delta['text'] === 'string') begun.text = (begun.text ?? '') + delta['text']
  else if (call) begun.input = (begun.input ?? '') + asText(call['input'])
  else if (citation) begun.citations.push(citation)
  else if (image) begun.block['image'] = { ...asObject(begun.block['image']), ...image }
  else if (thoughts) begun.thoughts = grownThoughts(begun.thoughts, thoughts)
}

function grownThoughts(before: Fields | undefined, { text, signature, redactedContent }: JsonObject): Fields {
  if (redactedContent !== undefined) {
    const pieces = [asText(before?.['redactedContent']), asText(redactedContent)]
    const bytes = Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64')))
    return { redactedContent: bytes.toString('base64') }
  }
  const old = asObject(before?.['reasoningText']) ?? {}
  return {
    reasoningText: {
      ...old,
      text: asText(old['text']) + asText(text),
      ...(signature !== undefined && { signature })
    }
  }
}

/** The input of a call; undefined when it is not JSON. One without deltas has none. */
function valueOf(input: string | undefined): unknown {
  if (input === undefined || input === '') return {}
  try {
    return parseJson(input)
  } catch {
    return undefined
  }
}
