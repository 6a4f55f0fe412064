// Reads and checks requests for pictures: JSON with a prompt, or a form with pictures.
import { hash } from 'node:crypto'
import type { Call } from '../endpoint.ts'
import { formOf, typedFields } from '../body.ts'
import { takeDirective } from '../directive.ts'
import type { Directive } from '../directive.ts'
import { integer, invalid, isBoolean, isObject, isString, missing, oneOf, optional, parseObject } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { pictureFormats } from '../media/formats.ts'
import { countTokens } from '../words/tokens.ts'
import { readModel } from './models.ts'

/** What is asked for: pictures from a prompt, from pictures and a prompt, or from a picture alone. */
export type ImageTask = 'generation' | 'edit' | 'variation'

/** A request that passed the checks. */
export interface ImageRequest {
  model: string
  task: ImageTask
  directive: Directive
  /** The prompt without its directive; empty for variations. */
  prompt: string
  width: number
  height: number
  count: number
  quality: string
  background: string
  format: string
  /** Whether pictures are sent as addresses instead of base64. */
  asUrl: boolean
  stream: boolean
  partials: number
  textTokens: number
  /** The tokens of the pictures in the request. */
  imageTokens: number
  /** The same for equal requests. */
  digest: string
}

const mostPixels = 4096
const mostImages = 16
const tokensPerImage = 85
const numbers = ['n', 'output_compression', 'partial_images'] as const
const flags = ['stream'] as const

/** Whether it is an older model: these answer with addresses and report no usage. */
export const isOlder = (model: string): boolean => model.startsWith('dall-e')

/**
 * `usual`: how pictures are sent when the request does not say.
 * @throws Refusal
 */
export function readImageRequest(call: Call, task: ImageTask, usual?: 'url'): ImageRequest {
  const body =
    task === 'generation' || (!call.form && task === 'edit')
      ? parseObject(call.body)
      : typedFields(formOf(call), { numbers, flags })
  const model = readModel(call, body)
  // Variations have no prompt, so the directive is in `user`, their only text.
  const place = task === 'variation' ? 'user' : 'prompt'
  const text = optional(body, place, isString, 'a string')
  if (task !== 'variation' && (text === undefined || text === '')) throw missing('prompt')
  const { directive, prompt } = takeDirective(text ?? '', model, place)
  const images = task === 'generation' ? [] : readImages(call, body)
  const [width, height] = readSize(body)
  const stream = optional(body, 'stream', isBoolean, 'true or false') ?? false
  const partials = optional(body, 'partial_images', integer(0, 3), 'an integer from 0 to 3') ?? 0
  const count = optional(body, 'n', integer(1, 10), 'an integer from 1 to 10') ?? 1
  optional(body, 'output_compression', integer(0, 100), 'an integer from 0 to 100')
  const responseFormat = optional(body, 'response_format', oneOf('url', 'b64_json'), 'url or b64_json')
  const quality = optional(body, 'quality', isString, 'a string') ?? 'auto'
  return {
    model,
    task,
    directive,
    width,
    height,
    quality,
    stream,
    partials,
    prompt: task === 'variation' ? '' : prompt,
    count: directive.images ?? count,
    background:
      optional(body, 'background', oneOf('auto', 'transparent', 'opaque'), 'auto, transparent or opaque') ?? 'auto',
    format:
      optional(
        body,
        'output_format',
        oneOf(...Object.keys(pictureFormats)),
        `one of ${Object.keys(pictureFormats).join(', ')}`
      ) ?? 'png',
    asUrl: (responseFormat ?? usual ?? (isOlder(model) ? 'url' : 'b64_json')) === 'url',
    textTokens: task === 'variation' ? 0 : countTokens(text ?? ''),
    imageTokens: images.length * tokensPerImage,
    digest: hash('sha1', [task, model, text, width, height, quality, ...images].join('\0'))
  }
}

/** What identifies the pictures of a request: the hash of a file, or an address. */
function readImages({ form }: Call, body: Fields): string[] {
  const images = form
    ? form.files.filter(({ field }) => field === 'image').map(({ sha256 }) => sha256)
    : readReferences(body['images'])
  if (images.length === 0) throw missing('image')
  if (images.length > mostImages) throw invalid('image', `Expected at most ${mostImages} images.`)
  return images
}

function readReferences(given: unknown): string[] {
  if (given === undefined) return []
  if (!Array.isArray(given)) throw invalid('images', 'Expected an array.')
  return given.map((reference: unknown, i) => {
    const { image_url: address, file_id: id } = (isObject(reference) ? reference : {}) as {
      image_url?: unknown
      file_id?: unknown
    }
    const named = address ?? id
    if (isString(named)) return named
    throw invalid(`images[${i}]`, 'Expected an object with image_url or file_id.')
  })
}

function readSize(body: Fields): [width: number, height: number] {
  const size = optional(body, 'size', isString, 'a string') ?? 'auto'
  if (size === 'auto') return [1024, 1024]
  const [, width, height] = /^(\d{1,4})x(\d{1,4})$/.exec(size)?.map(Number) ?? []
  if (width && height && width <= mostPixels && height <= mostPixels) return [width, height]
  throw invalid('size', `Expected auto or WIDTHxHEIGHT of at most ${mostPixels} each.`)
}
