// Decides which tools an answer calls, once a protocol has read which there are.
import type { Directive } from '../directive.ts'
import { Refusal } from '../refusal.ts'

/** A tool of a request. */
export interface Tool {
  /** A custom tool takes a text, a function arguments in JSON. */
  kind: 'function' | 'custom'
  name: string
  /** Of the arguments. */
  schema: unknown
}

/** A call that the answer will make. */
export interface WantedCall extends Tool {
  /** Given by a directive instead of made up. */
  arguments: Readonly<Record<string, unknown>> | undefined
}

/**
 * The calls of an answer: those a directive names, else the `forced` ones, which the request leaves no way around.
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
