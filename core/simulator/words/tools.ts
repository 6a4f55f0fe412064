// Decides which tools an answer calls.
import type { Directive } from '../directive.ts'
import { Refusal } from '../refusal.ts'

/** A tool of a request. */
export interface Tool {
  /** A custom tool takes text, a function takes arguments in JSON. */
  kind: 'function' | 'custom'
  name: string
  /** The schema of the arguments. */
  schema: unknown
}

/** A call that the answer will make. */
export interface WantedCall extends Tool {
  /** The arguments that a directive gives; undefined: they are made up. */
  arguments: Readonly<Record<string, unknown>> | undefined
}

/**
 * The calls of an answer: those that a directive names, or else the `forced` ones.
 * @throws Refusal when there is no such tool
 */
export function wantedCalls(
  tools: readonly Tool[],
  forced: readonly string[],
  directive: Directive
): readonly WantedCall[] {
  if (directive.call !== undefined && tools.length === 0) {
    throw new Refusal(400, 'Simulator directive: call needs tools in the request.', { param: 'tools' })
  }
  const names = directive.call === undefined ? forced : [directive.call].flat()
  return names.map((name) => {
    const tool = tools.find((candidate) => candidate.name === name)
    if (!tool) throw new Refusal(400, `Tool choice '${name}' not found in 'tools' parameter.`, { param: 'tool_choice' })
    return { ...tool, arguments: directive.arguments }
  })
}
