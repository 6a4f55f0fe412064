// GET /v1/models and /v1/models/{id}: the served models.
import { jsonAnswer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { invalid } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'

const anyModel = ['simulator']

function item(id: string): unknown {
  return { id, object: 'model', created: 1_767_225_600, owned_by: 'simulator' }
}

/** The list of models. A simulator that serves any name lists one. */
export const modelList: Endpoint = {
  method: 'GET',
  path: '/v1/models',
  answer: ({ models = anyModel }: Call) => jsonAnswer({ object: 'list', data: models.map(item) })
}

/** Describes one model. */
export const modelDetail: Endpoint = {
  method: 'GET',
  path: '/v1/models/{model+}',
  answer({ models, params }: Call) {
    const model = params['model']!
    if (!models || models.includes(model)) return jsonAnswer(item(model))
    throw new Refusal(404, `The model '${model}' does not exist`, { param: 'model', code: 'model_not_found' })
  }
}

/**
 * The model that a request names.
 * @throws Refusal when it names none, or one that is not served
 */
export function readModel({ models }: Call, body: Fields): string {
  const model = body['model']
  if (model === undefined) throw new Refusal(400, 'you must provide a model parameter')
  if (typeof model !== 'string') throw invalid('model', 'Expected a string.')
  if (!models || models.includes(model)) return model
  throw new Refusal(404, `The model \`${model}\` does not exist or you do not have access to it.`, {
    param: 'model',
    code: 'model_not_found'
  })
}
