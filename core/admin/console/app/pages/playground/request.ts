// What is sent: the body made of the form, or as it was typed.
import type { Ask, Tool } from './conversation.ts'
import type { Draft, Setup } from './draft.ts'
import { parsed } from './json.ts'

/** A request to an endpoint of the data listener. */
export interface Request {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
}

/**
 * The request to one of the models.
 * @throws Error in words for people, when something that was typed cannot be used
 */
export function requestOf(setup: Setup, draft: Draft, model: string): Request {
  const path = setup.dialect.path(model, setup.stream)
  if (draft.body !== undefined) {
    const body = objectIn(draft.body, 'The body')
    return { path, body: 'model' in body ? { ...body, model } : body }
  }
  const body = setup.dialect.body(askOf(setup, draft, model))
  return { path, body: { ...body, ...(draft.more.trim() === '' ? {} : objectIn(draft.more, 'More members')) } }
}

function askOf({ stream, max, temperature, topP }: Setup, { system, messages, tools }: Draft, model: string): Ask {
  const said = messages.filter(({ parts }) => parts.some((part) => part.kind !== 'text' || part.text !== ''))
  return {
    model,
    stream,
    system,
    messages: said,
    tools: toolsIn(tools),
    max: numberIn(max, 'Most output tokens'),
    temperature: numberIn(temperature, 'Temperature'),
    topP: numberIn(topP, 'Top p')
  }
}

function numberIn(text: string, what: string): number | undefined {
  if (text.trim() === '') return undefined
  const value = Number(text)
  if (!Number.isFinite(value)) throw new Error(`${what} is ${text}: it must be a number.`)
  return value
}

function toolsIn(text: string): readonly Tool[] {
  if (text.trim() === '') return []
  const value = parsed(text)
  const isTools =
    Array.isArray(value) && value.every((one) => typeof (one as { name?: unknown } | null)?.name === 'string')
  if (!isTools) throw new Error('Tools must be a JSON list of objects with a name, a description and parameters.')
  return value as Tool[]
}

function objectIn(text: string, what: string): Record<string, unknown> {
  const value = parsed(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error(`${what} must be a JSON object.`)
  return value as Record<string, unknown>
}
