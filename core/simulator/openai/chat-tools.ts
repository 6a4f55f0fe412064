// Reads `tools` and `tool_choice` of a chat completion request.
import type { Directive } from '../directive.ts'
import { invalid, isObject, isString, missing } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import { countTokens } from '../words/tokens.ts'
import { wantedCalls } from '../words/tools.ts'
import type { Tool, WantedCall } from '../words/tools.ts'

/**
 * The calls of the answer. `tokens`: what the tools add to the prompt.
 * @throws Refusal
 */
export function readTools(body: Fields, directive: Directive): { calls: readonly WantedCall[]; tokens: number } {
  const given = body['tools']
  const choice = body['tool_choice'] ?? 'auto'
  if (given === undefined || given === null) {
    if (choice !== 'auto' && choice !== 'none') {
      throw new Refusal(400, "'tool_choice' is only allowed when 'tools' are specified.", { param: 'tool_choice' })
    }
    return { calls: wantedCalls([], [], directive), tokens: 0 }
  }
  if (!Array.isArray(given) || given.length === 0) throw invalid('tools', 'Expected an array of at least one tool.')
  const tools = given.map(readTool)
  const calls = wantedCalls(tools, forced(choice, tools), directive)
  return { calls: choice === 'none' ? [] : calls, tokens: countTokens(JSON.stringify(given)) }
}

function readTool(given: unknown, i: number): Tool {
  const kind = isObject(given) ? given['type'] : undefined
  if (kind !== 'function' && kind !== 'custom')
    throw invalid(`tools[${i}].type`, 'Supported values are: function, custom.')
  const definition = (given as Fields)[kind]
  const name = isObject(definition) ? definition['name'] : undefined
  if (typeof name !== 'string' || name === '') throw missing(`tools[${i}].${kind}.name`)
  return { kind, name, schema: (definition as Fields)['parameters'] ?? { type: 'object' } }
}

/** The names of tools that `tool_choice` forces. */
function forced(choice: unknown, tools: readonly Tool[]): string[] {
  if (choice === 'auto' || choice === 'none') return []
  if (choice === 'required') return [tools[0]!.name]
  if (isObject(choice)) {
    for (const kind of ['function', 'custom'] as const) {
      const named = choice[kind]
      if (choice['type'] !== kind || !isObject(named)) continue
      if (!isString(named['name'])) throw invalid(`tool_choice.${kind}.name`, 'Expected a string.')
      return [named['name']]
    }
    const allowed = choice['allowed_tools']
    if (choice['type'] === 'allowed_tools' && isObject(allowed) && Array.isArray(allowed['tools'])) {
      return allowed['mode'] === 'required' ? forced(allowed['tools'][0], tools) : []
    }
  }
  throw invalid('tool_choice', 'Expected none, auto, required or an object that names a tool.')
}
