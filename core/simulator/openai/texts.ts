// Reads the input of completions and embeddings: a text, several texts, or lists of tokens.
import { invalid } from '../fields.ts'
import { countTokens } from '../words/tokens.ts'

const mostTexts = 2048

/** The texts of a request, in order. */
export interface Texts {
  /** The texts. One that came as tokens stands as `tokens: 1 2 3`. */
  texts: string[]
  /** The tokens of all texts. */
  tokens: number
}

/** @throws Refusal when it is neither a string nor an array of strings, of tokens or of arrays of tokens */
export function readTexts(given: unknown, param: string): Texts {
  const entries: unknown[] = Array.isArray(given) && !isTokens(given) ? given : [given]
  if (entries.length === 0 || entries.length > mostTexts) throw invalid(param, `Expected 1 to ${mostTexts} entries.`)
  let tokens = 0
  const texts = entries.map((entry) => {
    if (typeof entry === 'string') {
      tokens += countTokens(entry)
      return entry
    }
    if (!isTokens(entry))
      throw invalid(
        param,
        'Expected a string, an array of strings, an array of token integers, or an array of such arrays.'
      )
    tokens += entry.length
    return `tokens: ${entry.join(' ')}`
  })
  return { texts, tokens }
}

function isTokens(value: unknown): value is number[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((entry) => Number.isInteger(entry) && (entry as number) >= 0)
  )
}
