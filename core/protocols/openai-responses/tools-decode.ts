// Reads the tools in a Responses request.
import type { Losses } from '../canonical/losses.ts'
import type { Members } from '../canonical/members.ts'
import type { Tool } from '../canonical/request.ts'
import { isStrict } from '../canonical/strict.ts'

/** Members of tools that other protocols do not have, and that can be dropped. */
const toolHints = ['defer_loading', 'async', 'output_schema', 'allowed_callers']

/** The tools of a request, or of an item that adds tools. */
export function readTools(fields: Members, losses: Losses): Tool[] {
  return (fields.list('tools') ?? []).flatMap((tool): Tool[] => {
    if (tool.string('type') !== 'namespace') return readTool(tool, undefined, losses)
    losses.see('tool_namespace', tool.place)
    const namespace = tool.needString('name')
    return (tool.list('tools') ?? []).flatMap((inner) => readTool(inner, namespace, losses))
  })
}

function readTool(tool: Members, namespace: string | undefined, losses: Losses): Tool[] {
  const type = tool.string('type')
  if (type !== 'function' && type !== 'custom') {
    losses.see('server_tool', tool.place)
    return []
  }
  for (const hint of toolHints) if (tool.value(hint)) losses.see('hint', tool.at(hint))
  const head = {
    name: tool.needString('name'),
    ...(namespace !== undefined && { namespace }),
    description: tool.string('description')
  }
  if (type === 'custom') {
    losses.see('custom_tool', tool.place)
    return [{ ...head, parameters: undefined, strict: undefined, custom: true, ...readGrammar(tool, losses) }]
  }
  losses.see('tools')
  const parameters = tool.json('parameters')
  const strict = tool.flag('strict')
  if (strict) losses.see('tool_strict', tool.at('strict'))
  // This protocol is strict by default if the schema allows it.
  return [
    { ...head, parameters, strict: strict ?? (parameters && isStrict(parameters) ? true : undefined), custom: false }
  ]
}

function readGrammar(tool: Members, losses: Losses): Pick<Tool, 'grammar'> {
  const format = tool.members('format')
  if (format?.string('type') !== 'grammar') return {}
  losses.see('custom_tool_grammar', tool.at('format'))
  return { grammar: { syntax: format.needString('syntax'), definition: format.needString('definition') } }
}
