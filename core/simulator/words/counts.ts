// Counts the tokens of a request and its answers.
import type { Counts } from '../stats.ts'
import type { Composition, Conversation } from './composition.ts'

/** The units of a request and its answers. */
export function countsOf({ directive, promptTokens }: Conversation, answers: readonly Composition[]): Counts {
  const written = Math.min(directive.written_tokens ?? 0, promptTokens)
  const reasoning = answers.reduce((sum, composition) => sum + composition.reasoning.tokens, 0)
  return {
    prompt: promptTokens,
    cached: Math.min(directive.cached_tokens ?? 0, promptTokens - written),
    ...(written > 0 && { written }),
    completion: answers.reduce((sum, { tokens }) => sum + tokens, 0),
    ...(reasoning > 0 && { reasoning })
  }
}
