// POST /v1/audio/transcriptions and /translations: a text as long as the recording, in all response formats.
import { bytesAnswer, jsonAnswer, streamAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { formOf, typedFields } from '../body.ts'
import type { Upload } from '../body.ts'
import { takeDirective } from '../directive.ts'
import type { Directive } from '../directive.ts'
import { eventWriter } from '../events.ts'
import { between, invalid, isBoolean, isString, missing, oneOf, optional } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { durationOf } from '../media/duration.ts'
import type { Counts } from '../stats.ts'
import { seedOf } from '../words/composition.ts'
import { Dice, writeProse } from '../words/prose.ts'
import { joined, writtenText } from '../words/text.ts'
import type { Text } from '../words/text.ts'
import { countTokens } from '../words/tokens.ts'
import { readModel } from './models.ts'
import { segmentsOf, spokenSegment, srtOf, verboseSegment, vttOf, wordsOf } from './transcript.ts'

/** https://platform.openai.com/docs/api-reference/audio */
export const transcriptions: Endpoint = {
  method: 'POST',
  path: '/v1/audio/transcriptions',
  answer: (call) => answer(call, 'transcribe')
}
export const translations: Endpoint = {
  method: 'POST',
  path: '/v1/audio/translations',
  answer: (call) => answer(call, 'translate')
}

type Task = 'transcribe' | 'translate'

const formats: Readonly<Record<Task, readonly string[]>> = {
  transcribe: ['json', 'text', 'srt', 'vtt', 'verbose_json', 'diarized_json'],
  translate: ['json', 'text', 'srt', 'vtt', 'verbose_json']
}
const tokensPerSecond = 10
const wordsPerSecond = 2.5

interface TranscriptionRequest {
  task: Task
  model: string
  directive: Directive
  format: string
  stream: boolean
  language: string
  /** Which times verbose_json has: of words, of segments, or both. */
  granularities: readonly string[]
  promptTokens: number
  seconds: number
  text: Text
}

function answer(call: Call, task: Task): Answer {
  const request = readTranscriptionRequest(call, task)
  const { directive, text, seconds, promptTokens, format } = request
  const counts = { prompt: promptTokens + Math.ceil(seconds * tokensPerSecond), completion: text.tokens, seconds }
  const usage = usageOf(request, counts)
  if (request.stream) return streamAnswer(frames(request, usage), directive, counts)
  const whole = joined(text)
  const plain = {
    text: () => whole,
    srt: () => srtOf(segmentsOf(whole, seconds)),
    vtt: () => vttOf(segmentsOf(whole, seconds))
  }[format]
  if (plain) return bytesAnswer('text/plain; charset=utf-8', Buffer.from(plain()), directive, counts)
  return jsonAnswer({ ...describe(request, whole), ...usage }, directive, counts)
}

function readTranscriptionRequest(call: Call, task: Task): TranscriptionRequest {
  const form = formOf(call)
  const body = typedFields(form, { numbers: ['temperature'], flags: ['stream'] })
  const model = readModel(call, body)
  const file = form.files.find(({ field }) => field === 'file')
  if (!file) throw missing('file')
  if (file.bytes === 0) throw invalid('file', 'The audio file is empty.')
  const said = optional(body, 'prompt', isString, 'a string') ?? ''
  const { directive } = takeDirective(said, model, 'prompt')
  const format =
    optional(body, 'response_format', oneOf(...formats[task]), `one of ${formats[task].join(', ')}`) ?? 'json'
  optional(body, 'temperature', between(0, 1), 'a number from 0 to 1')
  const stream = task === 'transcribe' && (optional(body, 'stream', isBoolean, 'true or false') ?? false)
  const granularities = readGranularities(body, format)
  const seconds = durationOf(file)
  return {
    task,
    model,
    directive,
    format,
    stream,
    granularities,
    seconds,
    language: task === 'translate' ? 'english' : (optional(body, 'language', isString, 'a string') ?? 'en'),
    promptTokens: countTokens(said),
    text: writeTranscript(file, directive, seconds)
  }
}

function readGranularities(body: Fields, format: string): readonly string[] {
  const given = body['timestamp_granularities'] ?? []
  const list = [given].flat()
  if (list.length > 0 && format !== 'verbose_json')
    throw invalid('timestamp_granularities', 'They need response_format verbose_json.')
  if (!list.every(oneOf('word', 'segment')))
    throw invalid('timestamp_granularities', 'Supported values are: word, segment.')
  return list.length === 0 ? ['segment'] : list
}

function writeTranscript(file: Upload, directive: Directive, seconds: number): Text {
  if (directive.text !== undefined) return writtenText(directive.text, directive)
  const dice = new Dice(seedOf({ digest: file.sha256 }))
  const subject = { prompt: `${file.filename}, ${file.bytes} bytes, ${seconds} seconds`, toolResult: undefined }
  const tokens = directive.tokens ?? directive.chunks ?? Math.max(Math.ceil(seconds * wordsPerSecond), 1)
  return writtenText(writeProse(dice, subject, tokens), { chunks: directive.chunks })
}

/** The usage. Older models are charged by the second, and report seconds. */
function usageOf(
  { directive, model, promptTokens }: TranscriptionRequest,
  { prompt = 0, completion = 0, seconds = 0 }: Counts
): object {
  const tokens = {
    type: 'tokens',
    input_tokens: prompt,
    output_tokens: completion,
    total_tokens: prompt + completion,
    input_token_details: { text_tokens: promptTokens, audio_tokens: prompt - promptTokens }
  }
  const usage =
    directive.usage === undefined
      ? model.startsWith('whisper')
        ? { type: 'duration', seconds }
        : tokens
      : directive.usage
  return usage === null ? {} : { usage }
}

function describe({ task, format, language, seconds, granularities }: TranscriptionRequest, text: string): object {
  if (format === 'json') return { text }
  const segments = segmentsOf(text, seconds)
  if (format === 'diarized_json') return { task, duration: seconds, text, segments: segments.map(spokenSegment) }
  return {
    task,
    language,
    duration: seconds,
    text,
    ...(granularities.includes('segment') && { segments: segments.map(verboseSegment) }),
    ...(granularities.includes('word') && {
      words: wordsOf(text, seconds).map(({ text: word, start, end }) => ({ word, start, end }))
    })
  }
}

function* frames({ directive, format, text, seconds }: TranscriptionRequest, usage: object): Generator<string> {
  const event = eventWriter(directive)
  const whole = joined(text)
  for (const delta of text.pieces()) yield event(JSON.stringify({ type: 'transcript.text.delta', delta }))
  if (format === 'diarized_json')
    for (const [i, span] of segmentsOf(whole, seconds).entries()) yield event(JSON.stringify(spokenSegment(span, i)))
  if (directive.done !== false) yield event(JSON.stringify({ type: 'transcript.text.done', text: whole, ...usage }))
}
