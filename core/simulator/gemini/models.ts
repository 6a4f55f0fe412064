// GET /v1beta/models and /v1beta/models/{id}, and the same below /v1: the served models in Gemini's form.
import { jsonAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { integer } from '../fields.ts'
import { Refusal } from '../refusal.ts'

const anyModel = ['simulator']

function item(id: string): object {
  return {
    name: `models/${id}`,
    version: '001',
    displayName: id,
    description: 'A model of the simulator.',
    inputTokenLimit: 1_000_000,
    outputTokenLimit: 1_000_000,
    supportedGenerationMethods: ['generateContent', 'countTokens', 'embedContent', 'batchEmbedContents']
  }
}

/** https://ai.google.dev/api/models */
export const modelList: Endpoint = { method: 'GET', path: '/{version}/models', answer: list }

/** The token of a page is the number of models before it. */
function list({ models = anyModel, query }: Call): Answer {
  const size = Number(query.get('pageSize') ?? 50)
  const from = Number(query.get('pageToken') ?? 0)
  if (!integer(1, 1000)(size) || !integer(0, models.length)(from))
    throw new Refusal(400, 'Invalid page size or page token.')
  const end = from + size
  return jsonAnswer({
    models: models.slice(from, end).map(item),
    ...(end < models.length && { nextPageToken: String(end) })
  })
}

/** Describes one model. */
export const modelDetail: Endpoint = {
  method: 'GET',
  path: '/{version}/models/{model+}',
  answer: (call) => jsonAnswer(item(modelOf(call)))
}

/**
 * The model that the path names.
 * @throws Refusal when it is not served
 */
export function modelOf({ models, params }: Call): string {
  const { version, model = '' } = params
  if (!models || models.includes(model)) return model
  throw new Refusal(
    404,
    `models/${model} is not found for API version ${version}, or is not supported. Call ListModels to see the list of available models.`
  )
}
