// Answers GET /v1/models and /v1/models/{id} from the catalogue, as far as the caller may see it.
import type { Catalogue, Model } from '../catalogue/catalogue.ts'
import type { Reply } from '../contract/contract.ts'
import { GatewayError } from '../errors.ts'
import type { LiveExchange } from './exchange.ts'
import { caller } from '../contract/slots.ts'

/** The list, or with a path argument one model. @throws GatewayError `model_not_found`, the same for unknown and invisible */
export function answerModels(exchange: LiveExchange, catalogue: Catalogue): Reply {
  const who = exchange.find(caller)
  const visible = (model: Model): boolean => who === undefined || who.mayUse(model.name)
  const name = exchange.request.argument
  if (name === '') {
    return { status: 200, body: { object: 'list', data: [...catalogue.models.values()].filter(visible).map(describe) } }
  }
  const model = catalogue.models.get(name)
  if (!model || !visible(model)) throw unknownModel(name)
  return { status: 200, body: describe(model) }
}

/** One text for models that do not exist and models that the caller may not know of. */
export function unknownModel(name: string): GatewayError {
  const shown = name.length > 100 ? `${name.slice(0, 100)}…` : name
  return new GatewayError('model_not_found', `The model \`${shown}\` does not exist or this key may not use it.`, { param: 'model' })
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
