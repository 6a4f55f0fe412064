// The model list, answered from the catalogue as far as the caller may see it.
import type { Model } from '../catalogue/catalogue.ts'
import type { Exchange } from '../contract/contract.ts'
import type { OperationContext, ServedOperation } from '../contract/served.ts'
import { caller } from '../contract/slots.ts'
import { unknownModel } from '../errors.ts'

/** https://platform.openai.com/docs/api-reference/models */
export const modelList: ServedOperation = {
  name: 'models',
  endpoint: 'models',
  summary: 'Lists the models that the key may use.',
  method: 'GET',
  paths: ['/v1/models'],
  protocol: 'openai-chat',
  body: 'none',
  handle: (exchange, context) => ({ status: 200, body: { object: 'list', data: visible(exchange, context).map(describe) } })
}

/** One model. */
export const modelDetail: ServedOperation = {
  name: 'models.retrieve',
  endpoint: 'models',
  summary: 'Describes one model; 404 for one that does not exist and for one that the key may not use.',
  method: 'GET',
  paths: ['/v1/models/{model...}'],
  protocol: 'openai-chat',
  body: 'none',
  handle(exchange, context) {
    const name = exchange.request.parameters['model']!
    const model = visible(exchange, context).find((one) => one.name === name)
    if (!model) throw unknownModel(name)
    return { status: 200, body: describe(model) }
  }
}

function visible(exchange: Exchange, { catalogue }: OperationContext): Model[] {
  const who = exchange.find(caller)
  return [...catalogue.models.values()].filter((model) => who === undefined || who.mayUse(model.name))
}

/** The four fields of OpenAI's model object, then what it does not have. */
function describe(model: Model): unknown {
  const { deprecated } = model
  return {
    id: model.name,
    object: 'model',
    created: model.created,
    owned_by: model.ownedBy,
    ...(model.contextWindow !== undefined && { context_window: model.contextWindow }),
    ...(model.maxOutputTokens !== undefined && { max_output_tokens: model.maxOutputTokens }),
    ...(deprecated && {
      deprecation: {
        date: isoDate(deprecated.since),
        sunset: deprecated.sunset === undefined ? null : isoDate(deprecated.sunset),
        replacement: deprecated.replacement ?? null
      }
    })
  }
}

function isoDate(unixMs: number): string {
  return new Date(unixMs).toISOString().slice(0, 10)
}
