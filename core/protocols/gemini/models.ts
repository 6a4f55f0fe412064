// Models of the catalogue in Gemini's words.
import type { ListedModel } from '../protocol.ts'

/** https://ai.google.dev/api/models. `methods`: what can be asked of it, as the last word of a path says it. */
export function geminiModel({ name, contextWindow, maxOutputTokens }: ListedModel, methods: readonly string[]): object {
  return {
    name: `models/${name}`,
    displayName: name,
    ...(contextWindow !== undefined && { inputTokenLimit: contextWindow }),
    ...(maxOutputTokens !== undefined && { outputTokenLimit: maxOutputTokens }),
    supportedGenerationMethods: methods
  }
}

/** The token of the page behind a model. It names the model, so that it still holds when others have come or gone. */
export function pageToken(model: ListedModel): string {
  return Buffer.from(model.name).toString('base64url')
}

/** The model that a token names. */
export function modelOfToken(token: string): string {
  return Buffer.from(token, 'base64url').toString()
}
