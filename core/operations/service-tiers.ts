// How requests of each client protocol ask for a service tier: the members, and the values that ask for the usual tier.
import type { Metering } from '../contract/operation.ts'

type Tiers = NonNullable<Metering['tiers']>

/** https://platform.openai.com/docs/guides/priority-processing, /flex-processing */
export const openaiTiers: Tiers = [{ member: 'service_tier', usual: ['default', 'auto'] }]

/**
 * https://platform.claude.com/docs/en/api/service-tiers;
 * https://platform.claude.com/docs/en/build-with-claude/fast-mode
 */
export const anthropicTiers: Tiers = [
  { member: 'service_tier', usual: ['standard_only', 'auto'] },
  { member: 'speed', usual: ['standard'] },
  { member: 'inference_geo', usual: ['global'] }
]

/** https://ai.google.dev/gemini-api/docs: upstreams accept both spellings of the member. */
export const geminiTiers: Tiers = ['serviceTier', 'service_tier'].map((member) => {
  return { member, usual: ['standard', 'unspecified', 'service_tier_standard', 'service_tier_unspecified'] }
})
