// Models of the catalogue in Gemini's form.
import type { ListedModel } from '../protocol.ts'

/**
 * One model, as in https://ai.google.dev/api/models. `methods`: the methods that it supports, such as `countTokens`.
 */
export function geminiModel({ name, contextWindow, maxOutputTokens }: ListedModel, methods: readonly string[]): object {
  return {
    name: `models/${name}`,
    displayName: name,
    ...(contextWindow !== undefined && { inputTokenLimit: contextWindow }),
    ...(maxOutputTokens !== undefined && { outputTokenLimit: maxOutputTokens }),
    supportedGenerationMethods: methods
  }
}

/** The token for the page after a model. It holds the model's name, so it stays valid when the list changes. */
export function pageToken(model: ListedModel): string {
  return Buffer.from(model.name).toString('base64url')
}

/** The name of the model that a token holds. */
export function modelOfToken(token: string): string {
  return Buffer.from(token, 'base64url').toString()
}
