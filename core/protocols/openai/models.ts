// Models of the catalogue in OpenAI's words.
import type { ListedModel } from '../protocol.ts'

/** https://platform.openai.com/docs/api-reference/models: four fields, and what it does not have. */
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

/** All of them: its clients know no pages. */
export function openaiModels(models: readonly ListedModel[]): object {
  return { object: 'list', data: models.map(openaiModel) }
}

function isoDate(unixMs: number): string {
  return new Date(unixMs).toISOString().slice(0, 10)
}
