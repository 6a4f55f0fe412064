// POST /v1/audio/speech: a sound as long as reading the text aloud would take, in pieces.
import { streamAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { takeDirective } from '../directive.ts'
import type { Directive } from '../directive.ts'
import { eventWriter } from '../events.ts'
import { between, invalid, isObject, isString, missing, oneOf, optional, parseObject } from '../fields.ts'
import { soundFormats } from '../media/formats.ts'
import { soundOf, soundOfBytes } from '../media/sound.ts'
import type { Counts } from '../stats.ts'
import { countTokens } from '../words/tokens.ts'
import { readModel } from './models.ts'

/** https://platform.openai.com/docs/api-reference/audio/createSpeech */
export const speech: Endpoint = { method: 'POST', path: '/v1/audio/speech', answer }

const longestInput = 4096
const charactersPerSecond = 15
const tokensPerSecond = 20
const shortest = 0.1

function answer(call: Call): Answer {
  const body = parseObject(call.body)
  const model = readModel(call, body)
  const input = optional(body, 'input', isString, 'a string')
  if (input === undefined || input === '') throw missing('input')
  const { directive, prompt } = takeDirective(input, model, 'input')
  const characters = [...input].length
  if (characters > longestInput) throw invalid('input', `Expected at most ${longestInput} characters.`)
  if (body['voice'] === undefined) throw missing('voice')
  if (!isString(body['voice']) && !isObject(body['voice']))
    throw invalid('voice', 'Expected a string or an object with an id.')
  const speed = optional(body, 'speed', between(0.25, 4), 'a number from 0.25 to 4') ?? 1
  const names = Object.keys(soundFormats)
  const format =
    soundFormats[optional(body, 'response_format', oneOf(...names), `one of ${names.join(', ')}`) ?? 'mp3']!
  const asEvents = optional(body, 'stream_format', oneOf('audio', 'sse'), 'audio or sse') === 'sse'

  const { bytes, chunks } = directive
  const seconds = Math.max([...prompt].length / charactersPerSecond / speed, shortest)
  const pieces = bytes === undefined ? soundOf(format, seconds, chunks) : soundOfBytes(format, bytes, chunks)
  const counts = { prompt: countTokens(input), completion: Math.ceil(seconds * tokensPerSecond), characters, seconds }
  if (asEvents) return streamAnswer(frames(pieces, directive, counts), directive, counts)
  return { contentType: format.contentType, frames: pieces[Symbol.iterator](), length: undefined, directive, counts }
}

function* frames(
  pieces: Iterable<Buffer>,
  directive: Directive,
  { prompt = 0, completion = 0 }: Counts
): Generator<string> {
  const event = eventWriter(directive)
  for (const piece of pieces)
    yield event(JSON.stringify({ type: 'speech.audio.delta', audio: piece.toString('base64') }))
  const counted = { input_tokens: prompt, output_tokens: completion, total_tokens: prompt + completion }
  const usage = directive.usage === undefined ? counted : directive.usage
  if (directive.done !== false)
    yield event(JSON.stringify({ type: 'speech.audio.done', ...(usage !== null && { usage }) }))
}
