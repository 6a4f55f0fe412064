// Gemini's names of the parameters that all protocols share, in `generationConfig`.
import type { ParameterNames } from '../canonical/parameters.ts'

export const parameters: ParameterNames = {
  maxOutputTokens: 'maxOutputTokens',
  temperature: 'temperature',
  topP: 'topP',
  topK: 'topK',
  presencePenalty: 'presencePenalty',
  frequencyPenalty: 'frequencyPenalty',
  seed: 'seed',
  candidates: 'candidateCount'
}
