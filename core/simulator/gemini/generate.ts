// generateContent, streamGenerateContent and countTokens: a whole answer, a stream of events, or an array that is
// written element by element.
import { jsonAnswer, streamAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { eventWriter } from '../events.ts'
import { pngOf } from '../media/png.ts'
import { Refusal } from '../refusal.ts'
import type { Counts } from '../stats.ts'
import { checkSize, compose } from '../words/composition.ts'
import type { Composition, MadeCall } from '../words/composition.ts'
import { countsOf } from '../words/counts.ts'
import { sign } from '../words/signature.ts'
import { countTokens as countWords } from '../words/tokens.ts'
import { readCountRequest, readGenerateRequest } from './generate-request.ts'
import type { GenerateRequest } from './generate-request.ts'
import { callText } from './parts.ts'
import { errorOf } from './status.ts'

/** https://ai.google.dev/api/generate-content */
export const generateContent: Endpoint = { method: 'POST', path: '/{version}/models/{model+}:generateContent', answer }
export const streamGenerateContent: Endpoint = {
  method: 'POST',
  path: '/{version}/models/{model+}:streamGenerateContent',
  answer: answerInChunks
}

/** Free, so nothing is added to the statistics. */
export const countTokens: Endpoint = {
  method: 'POST',
  path: '/{version}/models/{model+}:countTokens',
  answer(call) {
    const request = readCountRequest(call)
    return jsonAnswer({ totalTokens: request.promptTokens, promptTokensDetails: detailsOf(request) }, request.directive)
  }
}

const tokensPerImage = 1290

interface Generation {
  request: GenerateRequest
  candidates: readonly Composition[]
  counts: Counts
}

function generate(call: Call, streamed: boolean): Generation {
  const request = readGenerateRequest(call)
  checkSize(request.directive, streamed, request.candidates)
  const blocked = request.directive.block !== undefined
  const candidates = blocked ? [] : Array.from({ length: request.candidates }, (_, i) => compose(request, i))
  const counts = countsOf(request, candidates)
  const images = request.image ? candidates.length : 0
  return {
    request,
    candidates,
    counts:
      images === 0 ? counts : { ...counts, completion: (counts.completion ?? 0) + images * tokensPerImage, images }
  }
}

function answer(call: Call): Answer {
  const { request, candidates, counts } = generate(call, false)
  const shown = candidates.map((candidate, index) => {
    const parts = [...partsOf(request, candidate)].flat()
    return { content: { role: 'model', parts: joinTexts(parts) }, ...endOf(request, candidate), index }
  })
  return jsonAnswer(responseOf(request, shown, usageOf(request, counts)), request.directive, counts)
}

/** Events with `alt=sse`, an array otherwise. */
function answerInChunks(call: Call): Answer {
  if (call.query.get('alt') === 'sse') {
    const generation = generate(call, true)
    const {
      request: { directive },
      counts
    } = generation
    const event = eventWriter(directive)
    return streamAnswer(
      map(chunks(generation), (chunk) => event(JSON.stringify(chunk))),
      directive,
      counts
    )
  }
  try {
    return arrayAnswer(generate(call, true))
  } catch (error) {
    throw error instanceof Refusal
      ? new Refusal(error.status, error.message, { ...error.details, listed: true })
      : error
  }
}

function arrayAnswer(generation: Generation): Answer {
  const {
    request: { directive },
    counts
  } = generation
  let separator = '['
  function* frames(): Generator<string> {
    for (const chunk of chunks(generation)) {
      yield `${separator}${JSON.stringify(chunk)}`
      separator = ',\r\n'
    }
    yield separator === '[' ? '[]' : ']'
  }
  return {
    contentType: 'application/json; charset=UTF-8',
    frames: frames(),
    length: undefined,
    directive,
    counts,
    failure: (given = { error: errorOf(503, 'The simulator was told to give up here.') }) =>
      `${separator}${typeof given === 'string' ? given : JSON.stringify(given)}]`,
    refusal: { listed: true }
  }
}

function* map<T, U>(from: Iterable<T>, make: (value: T) => U): Generator<U> {
  for (const value of from) yield make(value)
}

function responseOf(
  { model, digest, directive }: GenerateRequest,
  candidates: readonly object[],
  usage: object
): object {
  const feedback =
    directive.block === undefined ? {} : { promptFeedback: { blockReason: directive.block, safetyRatings: [] } }
  return {
    ...(candidates.length > 0 && { candidates }),
    ...feedback,
    ...usage,
    modelVersion: model,
    responseId: digest.slice(0, 22)
  }
}

function endOf({ directive }: GenerateRequest, { cut }: Composition): object {
  const reason =
    directive.finish === undefined ? (directive.refusal ? 'SAFETY' : cut ? 'MAX_TOKENS' : 'STOP') : directive.finish
  return reason === null ? {} : { finishReason: reason }
}

function detailsOf({ modalities }: GenerateRequest): object[] {
  return [...modalities].map(([modality, tokenCount]) => ({ modality, tokenCount }))
}

/** The member `usageMetadata`, or nothing when a directive wants none. */
function usageOf(
  request: GenerateRequest,
  { prompt = 0, cached = 0, completion = 0, reasoning = 0, images = 0 }: Counts
): object {
  const { usage } = request.directive
  if (usage !== undefined) return usage === null ? {} : { usageMetadata: usage }
  const visible = completion - reasoning
  const drawn = images * tokensPerImage
  return {
    usageMetadata: {
      promptTokenCount: prompt,
      ...(visible > 0 && { candidatesTokenCount: visible }),
      totalTokenCount: prompt + completion,
      ...(cached > 0 && {
        cachedContentTokenCount: cached,
        cacheTokensDetails: [{ modality: 'TEXT', tokenCount: cached }]
      }),
      promptTokensDetails: detailsOf(request),
      ...(images > 0 && {
        candidatesTokensDetails: [
          { modality: 'TEXT', tokenCount: visible - drawn },
          { modality: 'IMAGE', tokenCount: drawn }
        ]
      }),
      ...(reasoning > 0 && { thoughtsTokenCount: reasoning })
    }
  }
}

/** The parts of an answer, grouped by chunk: thoughts, text, an image, and then all calls. */
function* partsOf(request: GenerateRequest, { reasoning, text, calls }: Composition): Generator<object[]> {
  if (request.thoughts) for (const piece of reasoning.pieces()) yield [{ text: piece, thought: true }]
  if (text) for (const piece of text.pieces()) yield [{ text: piece }]
  if (request.image)
    yield [
      {
        inlineData: {
          mimeType: 'image/png',
          data: pngOf({ width: 1024, height: 1024, digest: request.digest }).toString('base64')
        }
      }
    ]
  // A call that was cut is left out.
  const whole = calls.filter(({ input }) => !input.cut)
  if (whole.length > 0)
    yield whole.map((made, i) => callPart(request, made, i === 0 && (reasoning.tokens > 0 || isThird(request))))
}

/** Whether calls get ids, and the first one a signature: models of the third generation do that. */
const isThird = ({ model }: GenerateRequest): boolean => model.startsWith('gemini-3')

function callPart(request: GenerateRequest, { name, value, serial }: MadeCall, signed: boolean): object {
  return {
    functionCall: { ...(isThird(request) && { id: serial }), name, args: value },
    ...(signed && { thoughtSignature: sign(request.digest, callText(name, value)) })
  }
}

/** Joins consecutive texts of the same kind into one part. */
function joinTexts(parts: readonly object[]): object[] {
  const joinedParts: { text?: string; thought?: boolean }[] = []
  for (const part of parts as { text?: string; thought?: boolean }[]) {
    const last = joinedParts.at(-1)
    if (part.text !== undefined && last?.text !== undefined && last.thought === part.thought) last.text += part.text
    else joinedParts.push({ ...part })
  }
  return joinedParts
}

/** The chunks of a stream. The usage in a chunk counts what has been written so far. */
function* chunks({ request, candidates, counts }: Generation): Generator<object> {
  if (candidates.length === 0) return yield responseOf(request, [], usageOf(request, counts))
  const { prompt = 0, cached = 0, completion = 0, reasoning = 0 } = counts
  let written = 0
  const writing = new Map(candidates.map((candidate, i) => [i, partsOf(request, candidate)]))
  while (writing.size > 0) {
    for (const [index, rest] of writing) {
      const { done, value: parts } = rest.next()
      if (done) {
        writing.delete(index)
        continue
      }
      for (const { text = '', thought } of parts as { text?: string; thought?: boolean }[])
        if (!thought) written += countWords(text)
      yield responseOf(
        request,
        [{ content: { role: 'model', parts }, index }],
        usageOf(request, { prompt, cached, completion: Math.min(written, completion - reasoning) })
      )
    }
  }
  if (request.directive.done === false) return
  for (const [index, candidate] of candidates.entries()) {
    yield responseOf(
      request,
      [{ content: { role: 'model', parts: [{ text: '' }] }, ...endOf(request, candidate), index }],
      usageOf(request, counts)
    )
  }
}
