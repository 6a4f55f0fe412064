// Reads `tools` and `tool_choice` of a request for a response. Tools of the upstream may be among them.
import type { Directive } from '../../directive.ts'
import { invalid, isObject, isString, missing } from '../../fields.ts'
import type { Fields } from '../../fields.ts'
import { Refusal } from '../../refusal.ts'
import { countTokens } from '../../words/tokens.ts'
import { wantedCalls } from '../../words/tools.ts'
import type { Tool, WantedCall } from '../../words/tools.ts'

/**
 * The calls of the answer. `tokens`: what the tools add to the prompt.
 * @throws Refusal
 */
export function readTools(body: Fields, directive: Directive): { calls: readonly WantedCall[]; tokens: number } {
  const given = body['tools'] ?? []
  if (!Array.isArray(given)) throw invalid('tools', 'Expected an array.')
  const tools = given.flatMap((tool: unknown, i) => readTool(tool, `tools[${i}]`))
  const choice = body['tool_choice'] ?? 'auto'
  const calls = wantedCalls(tools, forced(choice, tools, given.length > 0), directive)
  return { calls: choice === 'none' ? [] : calls, tokens: given.length === 0 ? 0 : countTokens(JSON.stringify(given)) }
}

/** Reads a tool. Tools of the upstream are left out. */
function readTool(given: unknown, path: string): Tool[] {
  const type = isObject(given) ? given['type'] : undefined
  if (!isObject(given) || !isString(type)) throw missing(`${path}.type`)
  if (type !== 'function' && type !== 'custom') return []
  const name = given['name']
  if (!isString(name) || name === '') throw missing(`${path}.name`)
  if (!/^[a-zA-Z0-9_-]+$/.test(name))
    throw invalid(`${path}.name`, "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.")
  return [{ kind: type, name, schema: given['parameters'] ?? { type: 'object' } }]
}

/** The names of tools that `tool_choice` forces. */
function forced(choice: unknown, tools: readonly Tool[], any: boolean): string[] {
  if (choice === 'auto' || choice === 'none') return []
  if (!any)
    throw new Refusal(400, "Tool choice must not be set when no 'tools' are specified.", { param: 'tool_choice' })
  if (choice === 'required') return tools.slice(0, 1).map(({ name }) => name)
  const { type, name, mode, tools: allowed } = (isObject(choice) ? choice : {}) as Fields
  if ((type === 'function' || type === 'custom') && isString(name)) return [name]
  if (type === 'allowed_tools' && Array.isArray(allowed)) {
    const [first] = allowed as unknown[]
    return mode === 'required' && isObject(first) && isString(first['name']) ? [first['name']] : []
  }
  if (isString(type) && type !== 'function' && type !== 'custom') return []
  throw invalid('tool_choice', 'Expected none, auto, required or an object that names a tool.')
}
