// Writes the tools of a Converse request.
import { closeSchema, hasMaps } from '../canonical/closed-schema.ts'
import type { Losses } from '../canonical/losses.ts'
import { offered } from '../canonical/request.ts'
import type { ModelRequest, Tool } from '../canonical/request.ts'
import { cachePoint } from './messages-encode.ts'

type Body = Record<string, unknown>

/** Stands in the system prompt where tools are only named because the conversation has calls of them. */
const callNothing = 'Do not call any tool.'

/**
 * The tools, how they may be called, and what the model has to be told in words. Nobody can say here that no tool may
 * be called, and a conversation with calls is refused without the tools: these are named then, and the model is told.
 */
export function writeTools(request: ModelRequest, losses: Losses): { toolConfig?: Body; instruction?: string } {
  const { toolChoice } = request
  const tools = offered(request)
  if (tools.length > 0 && toolChoice?.mode !== 'none') {
    const choice =
      toolChoice?.mode === 'named'
        ? { tool: { name: toolChoice.name } }
        : toolChoice?.mode === 'required'
          ? { any: {} }
          : toolChoice && { auto: {} }
    return {
      toolConfig: { tools: tools.flatMap((tool) => writeTool(tool, losses)), ...(choice && { toolChoice: choice }) }
    }
  }
  const called = new Set(
    request.turns.flatMap((turn) =>
      turn.role === 'assistant' ? turn.parts.flatMap((part) => (part.type === 'tool_call' ? [part.name] : [])) : []
    )
  )
  if (called.size === 0) return {}
  const known = new Map(request.tools.map((tool) => [tool.name, tool]))
  const named = [...called].flatMap((name) =>
    writeTool(known.get(name) ?? { name, description: undefined, parameters: undefined, strict: undefined }, losses)
  )
  return { toolConfig: { tools: named }, instruction: callNothing }
}

/** Writes a tool. A schema with objects of free names cannot be strict, because strict schemas close every object. */
function writeTool(tool: Omit<Tool, 'custom'>, losses: Losses): Body[] {
  const { name, description, parameters, strict } = tool
  const schema = { type: 'object', ...(parameters ?? { properties: {} }) }
  const closes = strict === true && !hasMaps({ properties: {}, ...schema })
  if (strict && !closes) losses.drop('tool_strict')
  const toolSpec = {
    name,
    // An empty description is refused.
    ...(description && { description }),
    inputSchema: { json: closes ? closeSchema(schema) : schema },
    ...(closes && { strict })
  }
  return [{ toolSpec }, ...cachePoint(tool)]
}
