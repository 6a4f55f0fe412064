// POST /v1/embeddings: a vector of unit length for each input, always the same for the same text.
import { hash } from 'node:crypto'
import { jsonAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { takeFromAny } from '../directive.ts'
import { integer, invalid, missing, optional, parseObject } from '../fields.ts'
import { vectorOf } from '../words/vector.ts'
import { readModel } from './models.ts'
import { readTexts } from './texts.ts'

/** https://platform.openai.com/docs/api-reference/embeddings/create */
export const embeddings: Endpoint = { method: 'POST', path: '/v1/embeddings', answer }

const defaultDimensions = 1536
const mostDimensions = 4096
/** The most numbers of all vectors together, as their JSON is held in memory. */
const mostNumbers = 4 * 1024 * 1024

function answer(call: Call): Answer {
  const body = parseObject(call.body)
  const model = readModel(call, body)
  if (body['input'] === undefined) throw missing('input')
  const { texts, tokens } = readTexts(body['input'], 'input')
  if (texts.includes('')) throw invalid('input', 'Input cannot be an empty string.')
  const { directive, prompts } = takeFromAny(texts, model, 'input')
  const format = body['encoding_format'] ?? 'float'
  if (format !== 'float' && format !== 'base64')
    throw invalid('encoding_format', 'Supported values are: float, base64.')
  const dimensions =
    optional(body, 'dimensions', integer(1, mostDimensions), `an integer from 1 to ${mostDimensions}`) ??
    defaultDimensions
  if (dimensions * prompts.length > mostNumbers)
    throw invalid('dimensions', `All vectors together have at most ${mostNumbers} numbers here.`)
  const usage = directive.usage === undefined ? { prompt_tokens: tokens, total_tokens: tokens } : directive.usage
  const data = prompts.map((text, index) => {
    const vector = vectorOf(hash('sha1', `${model}\0${text}`), dimensions)
    return {
      object: 'embedding',
      index,
      embedding: format === 'base64' ? base64(vector) : Array.from(vector, shortest)
    }
  })
  return jsonAnswer({ object: 'list', data, model, ...(usage !== null && { usage }) }, directive, { prompt: tokens })
}

/** The number with nine digits, which are enough to restore the float. */
function shortest(value: number): number {
  return Number(value.toPrecision(9))
}

/** Floats of four bytes, little-endian. */
function base64(vector: Float32Array): string {
  const bytes = Buffer.allocUnsafe(vector.length * 4)
  for (const [i, value] of vector.entries()) bytes.writeFloatLE(value, i * 4)
  return bytes.toString('base64')
}
