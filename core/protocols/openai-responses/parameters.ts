// Responses' names of the parameters that all protocols share.
import type { ParameterNames } from '../canonical/parameters.ts'

export const parameters: ParameterNames = {
  temperature: 'temperature',
  topP: 'top_p',
  user: 'user',
  safetyIdentifier: 'safety_identifier',
  serviceTier: 'service_tier',
  promptCacheKey: 'prompt_cache_key'
}
