// GET /v1/models and /v1/models/{id} in Anthropic's form, in pages.
import { jsonAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { integer } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import { wrong } from './fields.ts'
import { versionOf } from './version.ts'

const anyModel = ['simulator']

function item(id: string): object {
  const unknown = {
    deprecated_at: null,
    retires_at: null,
    line: null,
    max_input_tokens: null,
    max_tokens: null,
    capabilities: null
  }
  return { ...unknown, id, type: 'model', display_name: id, created_at: '2026-01-01T00:00:00Z', lifecycle: 'active' }
}

/** https://platform.claude.com/docs/en/api/models-list */
export const modelList: Endpoint = { method: 'GET', path: '/v1/models', answer: list }

function list({ models = anyModel, query, headers }: Call): Answer {
  versionOf(headers)
  const limit = Number(query.get('limit') ?? 20)
  if (!integer(1, 1000)(limit)) throw wrong('limit', 'Input should be between 1 and 1000')
  const [after, before] = [query.get('after_id'), query.get('before_id')]
  const first = after === null ? 0 : models.indexOf(after) + 1
  const end = before === null ? models.length : models.indexOf(before)
  const page = before === null ? models.slice(first, first + limit) : models.slice(Math.max(end - limit, 0), end)
  return jsonAnswer({
    data: page.map(item),
    has_more: before === null ? first + page.length < models.length : end - page.length > 0,
    first_id: page[0] ?? null,
    last_id: page.at(-1) ?? null
  })
}

/** Describes one model. */
export const modelDetail: Endpoint = {
  method: 'GET',
  path: '/v1/models/{model+}',
  answer({ models, params, headers }: Call) {
    versionOf(headers)
    const model = params['model']!
    if (!models || models.includes(model)) return jsonAnswer(item(model))
    throw new Refusal(404, `model: ${model}`)
  }
}
