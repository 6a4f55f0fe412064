// Writes the output items of a response, for whole responses and for events.
import { shifted } from '../canonical/answer.ts'
import type { AnswerPart, Citation, Finish, PartOpening, TokenLogprob } from '../canonical/answer.ts'
import { isCut } from '../canonical/finish.ts'
import { parseObject } from '../canonical/json.ts'
import { writeTokens } from '../canonical/logprobs.ts'
import { seal } from '../canonical/proofs.ts'
import type { Proof } from '../canonical/request.ts'

export type Item = Record<string, unknown>

/** The content of an item: a part of the answer, as far as it has come. */
export interface Content {
  readonly opening: PartOpening
  text: string
  citations: Citation[]
  logprobs: TokenLogprob[]
  proof: Proof | undefined
}

/** The status of an item. `incomplete`: it was cut off. */
export type Status = 'in_progress' | 'completed' | 'incomplete'

export function contentOf(part: AnswerPart): Content {
  const opening: PartOpening =
    part.type === 'tool_call'
      ? part
      : part.type === 'text' || part.type === 'refusal' || part.type === 'reasoning'
        ? { type: part.type }
        : { type: 'media', media: part }
  return {
    opening,
    text: part.type === 'tool_call' ? part.input : 'text' in part ? part.text : '',
    citations: 'citations' in part ? [...(part.citations ?? [])] : [],
    logprobs: 'logprobs' in part ? [...(part.logprobs ?? [])] : [],
    proof: 'proof' in part && part.type !== 'tool_call' ? part.proof : undefined
  }
}

/**
 * Joins a text to the one right before it, because clients take the last text of the last message for the answer. Texts
 * with something in between are not joined.
 */
export function goOn(before: Content, more: Content): void {
  for (const citation of more.citations) before.citations.push(shifted(citation, before.text.length))
  for (const logprob of more.logprobs) before.logprobs.push(logprob)
  before.text += more.text
}

/** Whether it holds nothing that a client could see. */
export function isEmpty({ opening, text, proof }: Content): boolean {
  if (opening.type === 'media') return opening.media.type !== 'image' || opening.media.source.kind !== 'data'
  return opening.type !== 'tool_call' && text === '' && !(opening.type === 'reasoning' && proof)
}

/** The status of an item. Only the last item can be cut off, or a call with incomplete arguments. */
export function statusOf({ opening, text }: Content, isLast: boolean, finish: Finish): Status {
  if (!isCut(finish)) return 'completed'
  const cut = opening.type === 'tool_call' ? !opening.custom && (text === '' || !parseObject(text)) : isLast
  return cut ? 'incomplete' : 'completed'
}

const prefixes: Readonly<Record<PartOpening['type'], string>> = {
  text: 'msg',
  refusal: 'msg',
  reasoning: 'rs',
  tool_call: 'fc',
  media: 'ig'
}

/** The id of an item, unique in its response. `answer`: the answer's own id; `index`: the item's place. */
export function itemId({ type, ...opening }: PartOpening, answer: string, index: number): string {
  return `${'custom' in opening && opening.custom ? 'ctc' : prefixes[type]}_${answer}_${index}`
}

export function writeItem(content: Content, id: string, status: Status): Item {
  const { opening, text } = content
  const begun = status === 'in_progress'
  switch (opening.type) {
    case 'text':
    case 'refusal':
      return { id, type: 'message', status, role: 'assistant', content: begun ? [] : [writeContentPart(content)] }
    case 'reasoning':
      return {
        id,
        type: 'reasoning',
        summary: begun || text === '' ? [] : [writeSummary(text)],
        encrypted_content: begun ? null : seal('openai', content.proof)
      }
    case 'tool_call': {
      const { id: callId, name, namespace, custom } = opening
      const input = begun ? '' : text
      const head = { call_id: callId, name, ...(namespace !== undefined && { namespace }) }
      return custom
        ? { id, type: 'custom_tool_call', status, ...head, input }
        : { id, type: 'function_call', status, ...head, arguments: input }
    }
    case 'media': {
      const { source } = opening.media
      const [, format = 'png'] = source.kind === 'data' ? source.mimeType.split('/') : []
      return {
        id,
        type: 'image_generation_call',
        status,
        result: begun || source.kind !== 'data' ? null : source.data,
        output_format: format
      }
    }
  }
}

export function writeContentPart({ opening, text, citations, logprobs }: Content): Item {
  if (opening.type === 'refusal') return { type: 'refusal', refusal: text }
  return { type: 'output_text', text, annotations: citations.map(writeCitation), logprobs: writeTokens(logprobs) }
}

export function writeSummary(text: string): Item {
  return { type: 'summary_text', text }
}

export function writeCitation({ url, title, start, end }: Citation): Item {
  return { type: 'url_citation', url, title, start_index: start ?? 0, end_index: end ?? 0 }
}

/**
 * The reasoning item that carries a call's signature, before the call: calls have no place for one here, and the client
 * sends the item back in the same place.
 */
export function signatureOf(opening: PartOpening): Content | undefined {
  if (opening.type !== 'tool_call' || !opening.proof) return undefined
  return { opening: { type: 'reasoning' }, text: '', citations: [], logprobs: [], proof: opening.proof }
}
