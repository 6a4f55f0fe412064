// Chat completions' names of the parameters that all protocols share.
import type { ParameterNames } from '../canonical/parameters.ts'

export const parameters: ParameterNames = {
  temperature: 'temperature',
  topP: 'top_p',
  presencePenalty: 'presence_penalty',
  frequencyPenalty: 'frequency_penalty',
  seed: 'seed',
  candidates: 'n',
  verbosity: 'verbosity',
  user: 'user',
  safetyIdentifier: 'safety_identifier',
  serviceTier: 'service_tier',
  promptCacheKey: 'prompt_cache_key'
}
