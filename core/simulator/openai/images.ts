// POST /v1/images/generations, /edits and /variations: pictures of the requested size, in one colour.
import { hash } from 'node:crypto'
import { jsonAnswer, streamAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import type { Directive } from '../directive.ts'
import { eventWriter } from '../events.ts'
import type { ImagePlan } from '../jobs/job.ts'
import { pictureAddress } from '../media/address.ts'
import { pictureFormats } from '../media/formats.ts'
import type { Picture } from '../media/picture.ts'
import type { Counts } from '../stats.ts'
import { createdOf } from '../words/composition.ts'
import { isOlder, readImageRequest } from './image-request.ts'
import type { ImageRequest, ImageTask } from './image-request.ts'

/** https://platform.openai.com/docs/api-reference/images */
export const imageEndpoints: readonly Endpoint[] = [
  { method: 'POST', path: '/v1/images/generations', answer: (call) => answer(call, 'generation') },
  { method: 'POST', path: '/v1/images/edits', answer: (call) => answer(call, 'edit') },
  { method: 'POST', path: '/v1/images/variations', answer: (call) => answer(call, 'variation') }
]

/** The side of a patch in pixels. Each patch of a picture is one token in medium quality. */
const patch = 32
const factors: Readonly<Record<string, number>> = { low: 0.25, high: 4, hd: 4, xhigh: 8, max: 16 }
const tokensPerPartial = 100

function answer(call: Call, task: ImageTask): Answer {
  const request = readImageRequest(call, task)
  const counts = countsOf(request)
  if (request.stream) return streamAnswer(frames(request, counts), request.directive, counts)
  return jsonAnswer(imagesOf(request, call.origin, counts), request.directive, counts)
}

function countsOf({ width, height, quality, count, stream, partials, textTokens, imageTokens }: ImageRequest): Counts {
  const tokens = Math.ceil(Math.ceil(width / patch) * Math.ceil(height / patch) * (factors[quality] ?? 1))
  return {
    prompt: textTokens + imageTokens,
    completion: count * (tokens + (stream ? partials * tokensPerPartial : 0)),
    images: count
  }
}

function usageOf(
  { directive, model, textTokens, imageTokens }: ImageRequest,
  { prompt = 0, completion = 0 }: Counts
): object {
  const counted = isOlder(model)
    ? null
    : {
        input_tokens: prompt,
        input_tokens_details: { text_tokens: textTokens, image_tokens: imageTokens },
        output_tokens: completion,
        output_tokens_details: { image_tokens: completion, text_tokens: 0 },
        total_tokens: prompt + completion
      }
  const usage = directive.usage === undefined ? counted : directive.usage
  return usage === null ? {} : { usage }
}

function appearance({ model, width, height, quality, background, format }: ImageRequest): object {
  return isOlder(model) ? {} : { background, output_format: format, quality, size: `${width}x${height}` }
}

function pictureOf({ width, height, digest }: ImageRequest, index: number, partial = -1): Picture {
  return { width, height, digest: hash('sha1', `${digest} ${index} ${partial}`) }
}

/** A generation of pictures as a job. They are sent as addresses unless the request asks for base64. */
export function imageJob(call: Call): { model: string; directive: Directive; plan: ImagePlan; counts: Counts } {
  const request = readImageRequest(call, 'generation', 'url')
  const counts = countsOf(request)
  const { data, usage = null } = imagesOf(request, call.origin, counts)
  return { model: request.model, directive: request.directive, plan: { kind: 'image', data, usage }, counts }
}

/** The whole answer. Its pictures are the same as in a stream. */
function imagesOf(
  request: ImageRequest,
  origin: string,
  counts: Counts
): { created: number; data: object[]; usage?: unknown } {
  const { count, format, asUrl, prompt, directive } = request
  return {
    created: createdOf(request),
    data: Array.from({ length: count }, (_, i) => {
      const picture = pictureOf(request, i)
      const shown = asUrl
        ? { url: pictureAddress(origin, picture, format) }
        : { b64_json: pictureFormats[format]!(picture).toString('base64') }
      return {
        ...shown,
        ...((directive.text !== undefined || isOlder(request.model)) && { revised_prompt: directive.text ?? prompt })
      }
    }),
    ...appearance(request),
    ...usageOf(request, counts)
  }
}

function* frames(request: ImageRequest, counts: Counts): Generator<string> {
  const { task, count, partials, format, directive } = request
  const write = eventWriter(directive)
  const family = task === 'generation' ? 'image_generation' : 'image_edit'
  const event = (type: string, picture: Picture, more: object): string => {
    const name = `${family}.${type}`
    const encoded = pictureFormats[format]!(picture).toString('base64')
    return write(
      JSON.stringify({
        type: name,
        b64_json: encoded,
        created_at: createdOf(request),
        ...appearance(request),
        ...more
      }),
      name
    )
  }
  for (let i = 0; i < count; i++) {
    for (let k = 0; k < partials; k++)
      yield event('partial_image', pictureOf(request, i, k), { partial_image_index: k })
    // The usage of all pictures is reported once, with the last one.
    if (i < count - 1 || directive.done !== false)
      yield event('completed', pictureOf(request, i), i === count - 1 ? usageOf(request, counts) : {})
  }
}
