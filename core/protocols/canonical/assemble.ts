// Assembles a whole answer from its events, and makes events from a whole answer.
import type { AnswerEvent, AnswerPart, Candidate, EmitEvent, Finish, ModelAnswer, PartOpening } from './answer.ts'
import type { ToolCall } from './request.ts'
import { badAnswer } from './untranslatable.ts'

/** Assembles the events of one answer. */
export class Assembler {
  #id = ''
  readonly #parts: { candidate: number; part: AnswerPart }[] = []
  readonly #finishes = new Map<number, Finish>()
  #usage: ModelAnswer['usage']

  see(event: AnswerEvent): void {
    switch (event.type) {
      case 'start':
        this.#id = event.id
        break
      case 'open':
        this.#parts[event.part] = { candidate: event.candidate, part: begin(event.opening) }
        break
      case 'delta': {
        const { part } = this.#parts[event.part]!
        if (part.type === 'tool_call') part.input += event.text
        else if ('text' in part) part.text += event.text
        if (part.type === 'text' || part.type === 'refusal')
          for (const token of event.logprobs ?? []) (part.logprobs ??= []).push(token)
        break
      }
      case 'cite': {
        const { part } = this.#parts[event.part]!
        if (part.type === 'text') (part.citations ??= []).push(event.citation)
        break
      }
      case 'close': {
        const { part } = this.#parts[event.part]!
        if (event.proof && (part.type === 'text' || part.type === 'reasoning')) part.proof = event.proof
        break
      }
      case 'usage':
        this.#usage = event.usage
        break
      case 'finish':
        this.#finishes.set(event.candidate, event.finish)
        break
      case 'end':
    }
  }

  /**
   * The answer, once all events were seen.
   * @throws Untranslatable when a candidate has no end
   */
  result(): ModelAnswer {
    const candidates: Candidate[] = []
    for (const [index, finish] of [...this.#finishes].sort(([a], [b]) => a - b)) {
      if (index !== candidates.length) throw unfinished()
      candidates.push({ parts: [], finish })
    }
    if (candidates.length === 0) throw unfinished()
    for (const { candidate, part } of this.#parts) {
      const found = candidates[candidate]
      if (!found) throw unfinished()
      found.parts.push(part)
    }
    return { id: this.#id, candidates, usage: this.#usage }
  }
}

function unfinished(): Error {
  return badAnswer('The upstream ended its answer before it was complete.')
}

function begin(opening: PartOpening): AnswerPart {
  switch (opening.type) {
    case 'media':
      return opening.media
    case 'tool_call':
      return { ...opening, input: '' }
    default:
      return { type: opening.type, text: '' }
  }
}

/** Emits the events that this answer would have been streamed as, with one delta for each part. */
export function tell(answer: ModelAnswer, emit: EmitEvent): void {
  emit({ type: 'start', id: answer.id })
  let count = 0
  answer.candidates.forEach(({ parts }, candidate) => {
    for (const part of parts) tellPart(part, candidate, count++, emit)
  })
  if (answer.usage) emit({ type: 'usage', usage: answer.usage })
  answer.candidates.forEach(({ finish }, candidate) => emit({ type: 'finish', candidate, finish }))
  emit({ type: 'end' })
}

function tellPart(part: AnswerPart, candidate: number, number: number, emit: EmitEvent): void {
  emit({ type: 'open', candidate, part: number, opening: openingOf(part) })
  if (part.type === 'tool_call') {
    if (part.input !== '') emit({ type: 'delta', part: number, text: part.input })
    emit({ type: 'close', part: number, text: part.input })
    return
  }
  if (!('text' in part)) return emit({ type: 'close', part: number, text: '' })
  const logprobs = 'logprobs' in part ? part.logprobs : undefined
  if (part.text !== '' || logprobs)
    emit({ type: 'delta', part: number, text: part.text, ...(logprobs && { logprobs }) })
  for (const citation of ('citations' in part && part.citations) || []) emit({ type: 'cite', part: number, citation })
  const proof = 'proof' in part ? part.proof : undefined
  emit({ type: 'close', part: number, text: '', ...(proof && { proof }) })
}

function openingOf(part: AnswerPart): PartOpening {
  switch (part.type) {
    case 'text':
    case 'refusal':
    case 'reasoning':
      return { type: part.type }
    case 'tool_call':
      return callOpening(part)
    default:
      return { type: 'media', media: part }
  }
}

function callOpening({ input: _input, ...opening }: ToolCall): PartOpening {
  return opening
}
