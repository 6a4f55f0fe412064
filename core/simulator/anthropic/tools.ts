// Reads `tools` and `tool_choice` of Anthropic's requests.
import type { Directive } from '../directive.ts'
import { isBoolean, isObject, oneOf } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { countTokens } from '../words/tokens.ts'
import { wantedCalls } from '../words/tools.ts'
import type { Tool, WantedCall } from '../words/tools.ts'
import { allowed, required, requiredText, wrong } from './fields.ts'

/** The tools of a request, and what it asks of them. */
export interface Toolbox {
  tools: readonly Tool[]
  /** The names of tools that `tool_choice` forces. */
  forced: readonly string[]
  /** Whether no tool may be called. */
  none: boolean
  tokens: number
}

/** @throws Refusal */
export function readTools(body: Fields): Toolbox {
  const given = allowed(body, '', 'tools', Array.isArray, 'a valid list') ?? []
  const tools = given.flatMap((tool: unknown, i) => readTool(tool, `tools.${i}`))
  const names = new Set(tools.map(({ name }) => name))
  if (names.size < tools.length) throw wrong('tools', 'Tool names must be unique.')
  const choice = allowed(body, '', 'tool_choice', isObject, 'a valid dictionary')
  if (choice && given.length === 0)
    throw wrong('tool_choice', '`tool_choice` may only be specified while providing `tools`.')
  const kind =
    choice &&
    required(choice, 'tool_choice', 'type', oneOf('auto', 'any', 'tool', 'none'), "'auto', 'any', 'tool' or 'none'")
  if (choice) allowed(choice, 'tool_choice', 'disable_parallel_tool_use', isBoolean, 'a valid boolean')
  return {
    tools,
    forced:
      kind === 'any' ? tools.slice(0, 1).map(({ name }) => name) : kind === 'tool' ? [chosen(choice!, names)] : [],
    none: kind === 'none',
    tokens: given.length === 0 ? 0 : countTokens(JSON.stringify(given))
  }
}

/**
 * The calls of the answer.
 * @throws Refusal
 */
export function callsOf({ tools, forced, none }: Toolbox, directive: Directive): readonly WantedCall[] {
  const calls = wantedCalls(tools, forced, directive)
  return none ? [] : calls
}

function chosen(choice: Fields, names: ReadonlySet<string>): string {
  const name = requiredText(choice, 'tool_choice', 'name')
  if (!names.has(name)) throw wrong('tool_choice', `Tool '${name}' not found in provided tools`)
  return name
}

/** Reads a tool. Tools of the upstream, which have a dated type, are left out. */
function readTool(given: unknown, path: string): Tool[] {
  if (!isObject(given)) throw wrong(path, 'Input should be a valid dictionary')
  const name = requiredText(given, path, 'name')
  if (!/^[a-zA-Z0-9_-]{1,128}$/.test(name))
    throw wrong(`${path}.name`, "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
  const type = given['type'] ?? 'custom'
  if (typeof type === 'string' && /_\d{8}$|^tool_search_tool_/.test(type)) return []
  if (type !== 'custom') throw wrong(`${path}.type`, 'Input tag does not match any of the expected tags')
  const schema = required(given, `${path}.custom`, 'input_schema', isObject, 'a valid dictionary')
  if (schema['type'] !== 'object') throw wrong(`${path}.custom.input_schema.type`, "Input should be 'object'")
  return [{ kind: 'function', name, schema }]
}
