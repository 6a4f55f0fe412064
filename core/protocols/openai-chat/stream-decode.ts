// Reads the chunks of an upstream's chat completion stream.
import { shifted } from '../canonical/answer.ts'
import type { EmitEvent, Finish } from '../canonical/answer.ts'
import type { StreamDecoder } from '../canonical/codec.ts'
import { finishOf } from '../canonical/finish.ts'
import { parseObject } from '../canonical/json.ts'
import { Parts } from '../canonical/parts.ts'
import type { OpenPart } from '../canonical/parts.ts'
import { badAnswer, tooLarge } from '../canonical/untranslatable.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { LikeText } from '../text/like-text.ts'
import { openaiChat } from './protocol.ts'
import type { Payload } from '../protocol.ts'
import type { Usage } from '../../money/usage.ts'
import {
  mostChoices,
  readCitations,
  readContent,
  readImages,
  readInput,
  readLogprobs,
  readProof,
  readReportedUsage,
  readThoughts
} from './answer-decode.ts'
import { placeOfCall } from './call-place.ts'
import { readFinish } from './finish.ts'

/** The most calls in one choice: the vendor's limit. */
const mostCalls = 128
/** How often an event is remembered in one stream: an upstream may write each in another way. */
const mostRemembered = 16

export class ChatStreamDecoder implements StreamDecoder {
  readonly #parts = new Parts()
  readonly #choices = new Map<number, Choice>()
  readonly #id: string
  #started = false
  #done = false
  #usage: Usage | undefined
  /** The latest event with text and nothing else, and the choice that it is of. Nearly all that follow resemble it. */
  #like: LikeText | undefined
  #speaker: Choice | undefined
  #remembered = 0

  constructor(id: string) {
    this.#id = id
  }

  push(event: Payload, emit: EmitEvent): void {
    if (this.#done) return
    const text = this.#like?.read(event.data)
    if (text !== undefined && this.#speaker!.say(text, emit)) return
    const chunk = asObject(event.json())
    if (!chunk) {
      if (event.data.toString('latin1').trim() !== '[DONE]')
        throw badAnswer('The upstream sent an event that is not of its protocol.')
      this.#done = true
      return
    }
    if (chunk['error'] != null)
      throw badAnswer(openaiChat.readError(chunk).message || 'The upstream reported an error.')
    if (!this.#started) {
      this.#started = true
      emit({ type: 'start', id: asText(chunk['id']) })
    }
    const items = asObjects(chunk['choices'])
    for (const item of items) this.#choice(item).read(item, emit)
    const usage = readReportedUsage(chunk)
    this.#usage = usage ?? this.#usage
    if (items.length === 1 && !usage && hasOnlyText(items[0]!)) this.#remember(event.data, items[0]!)
  }

  end(emit: EmitEvent): void {
    if (!this.finished()) throw badAnswer('The upstream ended its answer before it was complete.')
    for (const choice of this.#choices.values()) choice.close(emit)
    if (this.#usage) emit({ type: 'usage', usage: this.#usage })
    for (const [candidate, choice] of [...this.#choices].sort(([a], [b]) => a - b))
      emit({ type: 'finish', candidate, finish: choice.finish })
    emit({ type: 'end' })
  }

  finished(): boolean {
    const choices = [...this.#choices.values()]
    return choices.length > 0 && choices.every((choice) => choice.ended)
  }

  #remember(event: Buffer, item: JsonObject): void {
    if (this.#remembered++ >= mostRemembered) return
    this.#like = LikeText.of(event, contentOf)
    this.#speaker = this.#choice(item)
  }

  #choice({ index }: JsonObject): Choice {
    const number = typeof index === 'number' ? index : 0
    let choice = this.#choices.get(number)
    if (!choice) {
      if (!Number.isInteger(number) || number < 0 || number >= mostChoices)
        throw badAnswer('The upstream sent a choice with an impossible number.')
      this.#choices.set(number, (choice = new Choice(this.#parts, number, `call_${this.#id}_${number}_`)))
    }
    return choice
  }
}

/** A call that has begun. It opens when its name and id are known, or can no longer come. */
interface Call {
  id: string
  name: string
  custom: boolean
  part: OpenPart | undefined
  /** The input that came before it opened. */
  early: string
  /** Its signature, which is in its first delta. */
  readonly proof: ReturnType<typeof readProof>
}

/** The state of one choice. */
class Choice {
  ended = false
  readonly #parts: Parts
  readonly #index: number
  readonly #callId: string
  #finish: Finish = { reason: 'stop' }
  /** The open part that is not a call. */
  #spoken: OpenPart | undefined
  /** How many characters of text there are so far, and how many before the open part. */
  #text = 0
  #before = 0
  readonly #calls = new Map<number, Call>()

  constructor(parts: Parts, index: number, callId: string) {
    this.#parts = parts
    this.#index = index
    this.#callId = callId
  }

  get finish(): Finish {
    return finishOf(
      this.#finish,
      [...this.#calls.values()].some((call) => call.part)
    )
  }

  read(choice: JsonObject, emit: EmitEvent): void {
    const delta = asObject(choice['delta']) ?? asObject(choice['message'])
    if (delta) this.#delta(delta, choice, emit)
    const { finish_reason: reason } = choice
    if (choice['error'] != null || reason === 'error')
      throw badAnswer(asText(asObject(choice['error'])?.['message']) || 'The upstream reported an error.')
    // Some vendors send an empty reason before the real one.
    if (reason == null || reason === '') return
    this.ended = true
    this.#finish = readFinish(reason, choice['stop_reason'])
    this.#parts.count(this.#finish.sequence?.length ?? 0)
  }

  /** Goes on with the text that is being said; false when something else is. */
  say(text: string, emit: EmitEvent): boolean {
    const spoken = this.#spoken
    if (spoken?.type !== 'text') return false
    this.#parts.delta(spoken, text, emit)
    this.#text += text.length
    return true
  }

  /** Closes all open parts. */
  close(emit: EmitEvent): void {
    this.#parts.close(this.#spoken, emit)
    for (const [place, call] of this.#calls) {
      // A call without a name and input is an upstream's mistake.
      if (call.name !== '' || call.early !== '') this.#open(call, place, emit)
      this.#parts.close(call.part, emit)
    }
  }

  #delta(delta: JsonObject, choice: JsonObject, emit: EmitEvent): void {
    const thoughts = readThoughts(delta)
    if (thoughts !== '') this.#parts.delta(this.#speak('reasoning', emit), thoughts, emit)
    const text = readContent(delta['content'])
    const logprobs = readLogprobs(choice['logprobs'])
    if (text !== '' || logprobs) this.#parts.delta(this.#speak('text', emit), text, emit, logprobs)
    this.#text += text.length
    for (const citation of readCitations(delta['annotations']) ?? [])
      this.#parts.cite(this.#speak('text', emit), shifted(citation, -this.#before), emit)
    const refusal = asText(delta['refusal'])
    if (refusal !== '') this.#parts.delta(this.#speak('refusal', emit), refusal, emit)
    for (const media of readImages(delta['images'])) {
      this.#hush(emit)
      this.#parts.close(this.#parts.open(this.#index, { type: 'media', media }, emit), emit)
    }
    for (const call of asObjects(delta['tool_calls'])) this.#call(call, emit)
    const legacy = asObject(delta['function_call'])
    if (legacy) this.#call({ index: 0, function: legacy }, emit)
  }

  #speak(type: 'text' | 'refusal' | 'reasoning', emit: EmitEvent): OpenPart {
    if (this.#spoken?.type === type) return this.#spoken
    this.#hush(emit)
    this.#before = this.#text
    return (this.#spoken = this.#parts.open(this.#index, { type }, emit))
  }

  #hush(emit: EmitEvent): void {
    this.#parts.close(this.#spoken, emit)
    this.#spoken = undefined
  }

  #call(delta: JsonObject, emit: EmitEvent): void {
    const custom = asObject(delta['custom'])
    const inner = custom ?? asObject(delta['function']) ?? {}
    const index = placeOfCall(delta, inner['name'], this.#calls.size, this.#calls.get(this.#calls.size - 1))
    let call = this.#calls.get(index)
    if (!call) {
      if (this.#calls.size === mostCalls) throw tooLarge('The upstream called too many tools.')
      // Earlier calls that are complete are closed, so that the new one need not wait for them.
      for (const before of this.#calls.values())
        if (before.part && parseWhole(before.part.input)) this.#parts.close(before.part, emit)
      this.#calls.set(
        index,
        (call = { id: '', name: '', custom: custom !== undefined, part: undefined, early: '', proof: readProof(delta) })
      )
      this.#parts.count(call.proof.proof?.value.length ?? 0)
    }
    // Names and ids may be repeated, and may come back empty.
    if (call.id === '') this.#parts.count((call.id = asText(delta['id'])).length)
    if (call.name === '') this.#parts.count((call.name = asText(inner['name'])).length)
    const input = readInput(inner, custom !== undefined)
    if (call.name !== '' && (call.id !== '' || input !== '')) this.#open(call, index, emit)
    if (!call.part) {
      call.early += input
      this.#parts.count(input.length)
    } else if (this.#parts.isOpen(call.part)) this.#parts.delta(call.part, input, emit)
    else if (input.trim() !== '') throw badAnswer('The upstream went on with a call that was complete.')
    if (call.early.length > longestName) throw badAnswer('The upstream called a tool without a name.')
  }

  #open(call: Call, index: number, emit: EmitEvent): void {
    if (call.part) return
    if (call.name === '') throw badAnswer('The upstream called a tool without a name.')
    this.#hush(emit)
    const { name, custom, early } = call
    const id = call.id || `${this.#callId}${index}`
    call.part = this.#parts.open(this.#index, { type: 'tool_call', id, name, custom, ...call.proof }, emit)
    call.early = ''
    this.#parts.count(-early.length)
    this.#parts.delta(call.part, early, emit)
  }
}

/** Whether a choice of a chunk has text, and nothing else that another text would have otherwise. */
function hasOnlyText(choice: JsonObject): boolean {
  const { delta, logprobs } = choice
  if (!isNothing(logprobs)) return false
  return Object.entries(asObject(delta) ?? {}).every(([key, value]) =>
    key === 'content' ? typeof value === 'string' && value !== '' : key === 'role' || isNothing(value)
  )
}

function isNothing(value: unknown): boolean {
  return value == null || value === '' || (Array.isArray(value) && value.length === 0)
}

function contentOf(chunk: unknown): unknown {
  return asObject(asObjects(asObject(chunk)?.['choices'])[0]?.['delta'])?.['content']
}

/** The most input that may come before a call's name, in characters. */
const longestName = 64 * 1024

function parseWhole(input: string): boolean {
  return input !== '' && parseObject(input) !== undefined
}
