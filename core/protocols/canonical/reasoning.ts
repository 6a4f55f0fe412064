// How much to think: words on one side, tokens on the other.
import type { ReasoningWish } from './request.ts'

/** Of the longest answer, in percent, as the vendors' client libraries have it. */
const shares = { none: 0, minimal: 2, low: 10, medium: 30, high: 60, xhigh: 90, max: 95 } as const
/** Taken for the longest answer of a model when nobody said it. */
const usualOutput = 32_768
/** The least that Anthropic takes as a budget. */
const leastBudget = 1024

export type Effort = keyof typeof shares

export function isEffort(word: string): word is Effort {
  return Object.hasOwn(shares, word)
}

/**
 * Tokens to think with; undefined when the model is to decide. A word that is not known is nothing here: encoders
 * refuse it before.
 */
export function budgetOf({ effort, tokens }: ReasoningWish, maxOutputTokens = usualOutput): number | undefined {
  if (tokens !== undefined) return tokens < 0 ? undefined : tokens
  if (effort === undefined || !isEffort(effort)) return undefined
  return effort === 'none' ? 0 : Math.max(leastBudget, Math.floor((maxOutputTokens * shares[effort]) / 100))
}

/** The word for a budget; undefined when the model is to decide. */
export function effortOf({ effort, tokens }: ReasoningWish, maxOutputTokens = usualOutput): string | undefined {
  if (effort !== undefined) return effort
  if (tokens === undefined || tokens < 0) return undefined
  const share = (tokens * 100) / maxOutputTokens
  return tokens === 0 ? 'none' : share < 15 ? 'low' : share < 45 ? 'medium' : 'high'
}
