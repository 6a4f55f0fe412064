// GET /v1/models and /v1/models/{id}: the names this simulator answers to.
import { jsonAnswer } from './answer.ts'
import type { Call, Endpoint } from './answer.ts'
import { Refusal } from './refusal.ts'

const anyModel = ['simulator']

function item(id: string): unknown {
  return { id, object: 'model', created: 1_767_225_600, owned_by: 'simulator' }
}

/** The list; a simulator that serves any name lists one. */
export const modelList: Endpoint = {
  method: 'GET',
  path: '/v1/models',
  answer: ({ models = anyModel }: Call) => jsonAnswer({ object: 'list', data: models.map(item) })
}

/** One model. */
export const modelDetail: Endpoint = {
  method: 'GET',
  path: '/v1/models/',
  answer({ models, argument }: Call) {
    if (!models || models.includes(argument)) return jsonAnswer(item(argument))
    throw new Refusal(404, `The model '${argument}' does not exist`, { param: 'model', code: 'model_not_found' })
  }
}
