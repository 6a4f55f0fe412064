// Models of the catalogue in Anthropic's form.
import type { ListedModel } from '../protocol.ts'

/**
 * One model, as in https://platform.claude.com/docs/en/api/models. What is not configured is null. `now`: Unix
 * milliseconds.
 */
export function anthropicModel(
  { name, created, contextWindow, maxOutputTokens, deprecated }: ListedModel,
  now: number
): object {
  return {
    type: 'model',
    id: name,
    display_name: name,
    created_at: rfc3339(created * 1000),
    lifecycle: lifecycleOf(deprecated, now),
    deprecated_at: deprecated ? rfc3339(deprecated.since) : null,
    retires_at: deprecated?.sunset === undefined ? null : rfc3339(deprecated.sunset),
    line: null,
    max_input_tokens: contextWindow ?? null,
    max_tokens: maxOutputTokens ?? null,
    capabilities: null
  }
}

/** A page of models. */
export function anthropicModels(page: readonly ListedModel[], more: boolean, now: number): object {
  return {
    data: page.map((model) => anthropicModel(model, now)),
    has_more: more,
    first_id: page[0]?.name ?? null,
    last_id: page.at(-1)?.name ?? null
  }
}

function lifecycleOf(deprecated: ListedModel['deprecated'], now: number): 'active' | 'deprecated' | 'retired' {
  if (!deprecated || deprecated.since > now) return 'active'
  return deprecated.sunset !== undefined && deprecated.sunset <= now ? 'retired' : 'deprecated'
}

/** A time without milliseconds, as Anthropic writes it. */
function rfc3339(unixMs: number): string {
  return new Date(unixMs).toISOString().replace('.000Z', 'Z')
}
