// Reads a Gemini upstream's answer, whole or chunk by chunk: both have the same form.
import type { Citation, EmitEvent, Finish, ModelAnswer, TokenLogprob } from '../canonical/answer.ts'
import { Assembler } from '../canonical/assemble.ts'
import { finishOf } from '../canonical/finish.ts'
import { readArgumentsObject } from '../canonical/json.ts'
import { kindOf, standardBase64 } from '../canonical/media.ts'
import { Parts } from '../canonical/parts.ts'
import type { OpenPart } from '../canonical/parts.ts'
import type { MediaPart } from '../canonical/request.ts'
import { badAnswer } from '../canonical/untranslatable.ts'
import type { Usage } from '../../money/usage.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { readGeminiUsage } from '../usage/gemini.ts'
import { readFinish } from './finish.ts'
import { readSignature } from './signature.ts'

/** The most candidates of an answer. No real one reaches it. */
const mostCandidates = 128

export function decodeAnswer(body: unknown, id: string): ModelAnswer {
  const assembler = new Assembler()
  const emit: EmitEvent = (event) => assembler.see(event)
  const reader = new AnswerReader(id)
  // An upstream that was not asked for events sends its chunks as a list.
  for (const chunk of Array.isArray(body) ? (body as unknown[]) : [body]) reader.read(chunk, emit)
  reader.end(emit)
  return assembler.result()
}

/** Reads one answer, in one chunk or several. */
export class AnswerReader {
  readonly #id: string
  readonly #parts = new Parts()
  readonly #candidates = new Map<number, CandidateReader>()
  #started = false
  #usage: Usage | undefined

  /** `id`: the beginning of ids for calls without one. */
  constructor(id: string) {
    this.#id = id
  }

  read(value: unknown, emit: EmitEvent): void {
    const chunk = asObject(value)
    if (!chunk) throw badAnswer('The upstream sent an event that is not of its protocol.')
    if (chunk['error'] != null)
      throw badAnswer(asText(asObject(chunk['error'])?.['message']) || 'The upstream reported an error.')
    if (!this.#started) {
      this.#started = true
      emit({ type: 'start', id: asText(chunk['responseId']) })
    }
    const usage = readGeminiUsage(chunk['usageMetadata'])
    if (usage !== undefined && usage !== 'insane') this.#usage = usage
    for (const candidate of asObjects(chunk['candidates'])) this.#candidate(candidate['index']).read(candidate, emit)
    const feedback = asObject(chunk['promptFeedback'])
    if (feedback?.['blockReason'] != null)
      this.#candidate(0).block(asText(feedback['blockReasonMessage']) || asText(feedback['blockReason']), emit)
  }

  finished(): boolean {
    return this.#candidates.size > 0 && [...this.#candidates.values()].every(({ finish }) => finish !== undefined)
  }

  end(emit: EmitEvent): void {
    if (!this.finished()) throw badAnswer('The upstream ended its answer before it was complete.')
    this.#parts.closeAll(emit)
    if (this.#usage) emit({ type: 'usage', usage: this.#usage })
    for (const [candidate, { finish, calls }] of [...this.#candidates].sort(([a], [b]) => a - b)) {
      emit({ type: 'finish', candidate, finish: finishOf(finish!, calls > 0) })
    }
    emit({ type: 'end' })
  }

  #candidate(index: unknown): CandidateReader {
    const number = typeof index === 'number' ? index : 0
    let found = this.#candidates.get(number)
    if (!found) {
      if (!Number.isInteger(number) || number < 0 || number >= mostCandidates)
        throw badAnswer('The upstream sent a candidate with an impossible number.')
      this.#candidates.set(number, (found = new CandidateReader(this.#parts, number, `call_${this.#id}_${number}_`)))
    }
    return found
  }
}

class CandidateReader {
  finish: Finish | undefined
  calls = 0
  readonly #parts: Parts
  readonly #index: number
  readonly #callId: string
  #present: OpenPart | undefined

  constructor(parts: Parts, index: number, callId: string) {
    this.#parts = parts
    this.#index = index
    this.#callId = callId
  }

  read(candidate: JsonObject, emit: EmitEvent): void {
    const logprobs = readLogprobs(candidate['logprobsResult'])
    let told = logprobs === undefined
    for (const part of asObjects(asObject(candidate['content'])?.['parts'])) {
      const isText = typeof part['text'] === 'string' && part['thought'] !== true
      this.#part(part, emit, isText && !told ? logprobs : undefined)
      told ||= isText
    }
    if (this.#present?.type === 'text')
      for (const citation of readCitations(candidate['groundingMetadata']))
        this.#parts.cite(this.#present, citation, emit)
    const reason = candidate['finishReason']
    if (reason == null || reason === 'FINISH_REASON_UNSPECIFIED') return
    this.finish = readFinish(reason, candidate['finishMessage'])
  }

  /** Handles a prompt that was refused before there was an answer. */
  block(reason: string, emit: EmitEvent): void {
    this.finish = { reason: 'content_filter' }
    this.#parts.delta(this.#speak('refusal', emit), reason, emit)
  }

  #part(part: JsonObject, emit: EmitEvent, logprobs: TokenLogprob[] | undefined): void {
    const call = asObject(part['functionCall'])
    const proof = readSignature(asText(part['thoughtSignature']), call ? 'call' : 'signature')
    const text = part['text']
    if (call) {
      const id = asText(call['id']) || `${this.#callId}${this.calls}`
      const name = asText(call['name'])
      if (name === '') throw badAnswer('The upstream called a tool without a name.')
      // Calls in pieces have to be asked for, and the pieces are not supported here.
      if (call['partialArgs'] !== undefined || call['willContinue'] === true)
        throw badAnswer('The upstream sent a call of a tool in pieces.')
      this.calls++
      const opened = this.#open({ type: 'tool_call', id, name, custom: false, ...(proof && { proof }) }, emit)
      this.#parts.delta(opened, readArgumentsObject(call['args']) || '{}', emit)
      this.#parts.close(opened, emit)
    } else if (typeof text === 'string') {
      const kind = part['thought'] === true ? 'reasoning' : 'text'
      // Empty text ends a stream, and may carry the signature of the text before it.
      if (text === '' && !logprobs && this.#present?.type !== kind && !(proof && kind === 'reasoning')) return
      this.#parts.delta(this.#speak(kind, emit), text, emit, logprobs)
      if (proof) {
        this.#parts.close(this.#present, emit, proof)
        this.#present = undefined
      }
    } else {
      const media = readMedia(part)
      if (!media) return
      this.#parts.close(this.#open({ type: 'media', media }, emit), emit)
    }
  }

  #speak(type: 'text' | 'reasoning' | 'refusal', emit: EmitEvent): OpenPart {
    return this.#present?.type === type ? this.#present : this.#open({ type }, emit)
  }

  #open(opening: Parameters<Parts['open']>[1], emit: EmitEvent): OpenPart {
    this.#parts.close(this.#present, emit)
    return (this.#present = this.#parts.open(this.#index, opening, emit))
  }
}

/**
 * Reads pictures and sound from the model. Other parts are of the provider's own tools, and no other protocol has a
 * place for them.
 */
function readMedia(part: JsonObject): MediaPart | undefined {
  const data = asObject(part['inlineData'])
  if (!data) return undefined
  const mimeType = asText(data['mimeType']).toLowerCase()
  return { type: kindOf(mimeType), source: { kind: 'data', mimeType, data: standardBase64(asText(data['data'])) } }
}

/**
 * Reads the addresses that the answer is grounded on. Their places in the text are left out, as they are counted in
 * bytes.
 */
function readCitations(grounding: unknown): Citation[] {
  return asObjects(asObject(grounding)?.['groundingChunks']).flatMap((chunk): Citation[] => {
    const web = asObject(chunk['web'])
    return web && asText(web['uri']) !== '' ? [{ url: asText(web['uri']), title: asText(web['title']) }] : []
  })
}

function readLogprobs(result: unknown): TokenLogprob[] | undefined {
  const chosen = asObjects(asObject(result)?.['chosenCandidates'])
  if (chosen.length === 0) return undefined
  const top = asObjects(asObject(result)?.['topCandidates'])
  return chosen.map((token, index) => ({
    ...readToken(token),
    top: asObjects(top[index]?.['candidates']).map(readToken)
  }))
}

function readToken({ token, logProbability }: JsonObject): { token: string; logprob: number } {
  return { token: asText(token), logprob: typeof logProbability === 'number' ? logProbability : 0 }
}
