// Models of the catalogue in OpenAI's form.
import type { ListedModel } from '../protocol.ts'

/**
 * One model: the four members of https://platform.openai.com/docs/api-reference/models, and some of the gateway's own.
 */
export function openaiModel({
  name,
  created,
  ownedBy,
  contextWindow,
  maxOutputTokens,
  deprecated
}: ListedModel): object {
  return {
    id: name,
    object: 'model',
    created,
    owned_by: ownedBy,
    ...(contextWindow !== undefined && { context_window: contextWindow }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    ...(deprecated && {
      deprecation: {
        date: isoDate(deprecated.since),
        sunset: deprecated.sunset === undefined ? null : isoDate(deprecated.sunset),
        replacement: deprecated.replacement ?? null
      }
    })
  }
}

/** The whole list: clients of this protocol do not read further pages. */
export function openaiModels(models: readonly ListedModel[]): object {
  return { object: 'list', data: models.map(openaiModel) }
}

function isoDate(unixMs: number): string {
  return new Date(unixMs).toISOString().slice(0, 10)
}
