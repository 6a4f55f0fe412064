// Converts how much a model should think, between words and tokens.
import type { ReasoningWish } from './request.ts'

/** Shares of the longest answer, in percent, as the vendors' client libraries have them. */
const shares = { none: 0, minimal: 2, low: 10, medium: 30, high: 60, xhigh: 90, max: 95 } as const
/** The longest answer, in tokens, where the model's is not known. */
const usualOutput = 32_768
/** The smallest budget that Anthropic accepts, in tokens. */
const leastBudget = 1024

export type Effort = keyof typeof shares

export function isEffort(word: string): word is Effort {
  return Object.hasOwn(shares, word)
}

/** How many tokens to think with; undefined when the model decides. Encoders refuse unknown words before this. */
export function budgetOf({ effort, tokens }: ReasoningWish, maxOutputTokens = usualOutput): number | undefined {
  if (tokens !== undefined) return tokens < 0 ? undefined : tokens
  if (effort === undefined || !isEffort(effort)) return undefined
  return effort === 'none' ? 0 : Math.max(leastBudget, Math.floor((maxOutputTokens * shares[effort]) / 100))
}

/** The word for a budget; undefined when the model decides. */
export function effortOf({ effort, tokens }: ReasoningWish, maxOutputTokens = usualOutput): string | undefined {
  if (effort !== undefined) return effort
  if (tokens === undefined || tokens < 0) return undefined
  const share = (tokens * 100) / maxOutputTokens
  return tokens === 0 ? 'none' : share < 15 ? 'low' : share < 45 ? 'medium' : 'high'
}
