// Reads `tools` and `toolConfig` of Gemini's requests.
import type { Directive } from '../directive.ts'
import { isObject, isString, oneOf } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import { countTokens } from '../words/tokens.ts'
import { wantedCalls } from '../words/tools.ts'
import type { Tool, WantedCall } from '../words/tools.ts'
import { allowed, listOf, membersOf } from './fields.ts'
import { jsonSchemaOf } from './schema.ts'

const toolMembers = [
  'functionDeclarations',
  'googleSearch',
  'googleSearchRetrieval',
  'codeExecution',
  'urlContext',
  'fileSearch',
  'googleMaps',
  'computerUse',
  'mcpServers'
]
const declarationMembers = [
  'name',
  'description',
  'parameters',
  'parametersJsonSchema',
  'response',
  'responseJsonSchema',
  'behavior'
]

/** The functions of a request, and what it asks of them. */
export interface Toolbox {
  tools: readonly Tool[]
  mode: string
  /** The only functions that may be called; empty when all may. */
  names: readonly string[]
  tokens: number
}

/** @throws Refusal */
export function readTools(body: Fields): Toolbox {
  const given = listOf(body, '', 'tools')
  const tools = given.flatMap((tool, i) => {
    const fields = membersOf(tool, `tools[${i}]`, toolMembers)
    return listOf(fields, `tools[${i}]`, 'functionDeclarations').map((declaration, k) =>
      readDeclaration(declaration, `tools[${i}].function_declarations[${k}]`)
    )
  })
  const config = membersOf(body['toolConfig'] ?? {}, 'tool_config', [
    'functionCallingConfig',
    'retrievalConfig',
    'includeServerSideToolInvocations'
  ])
  const calling = membersOf(config['functionCallingConfig'] ?? {}, 'tool_config.function_calling_config', [
    'mode',
    'allowedFunctionNames',
    'streamFunctionCallArguments'
  ])
  const mode =
    allowed(
      calling,
      'tool_config.function_calling_config',
      'mode',
      oneOf('MODE_UNSPECIFIED', 'AUTO', 'ANY', 'NONE', 'VALIDATED'),
      'AUTO, ANY, NONE or VALIDATED'
    ) ?? 'AUTO'
  const names = listOf(calling, 'tool_config.function_calling_config', 'allowedFunctionNames')
  if (!names.every(isString)) throw new Refusal(400, 'allowed_function_names is a list of names.')
  if (names.length > 0 && mode !== 'ANY' && mode !== 'VALIDATED') {
    throw new Refusal(
      400,
      'Function calling config is set without a mode of ANY or VALIDATED, so allowed_function_names may not be set.'
    )
  }
  const unknown = names.find((name) => !tools.some((tool) => tool.name === name))
  if (unknown !== undefined)
    throw new Refusal(400, `allowed_function_names has ${JSON.stringify(unknown)}, which is not declared.`)
  if (mode === 'ANY' && tools.length === 0)
    throw new Refusal(400, 'Function calling config is set without function_declarations.')
  return { tools, mode, names, tokens: given.length === 0 ? 0 : countTokens(JSON.stringify(given)) }
}

/**
 * The calls of the answer.
 * @throws Refusal
 */
export function callsOf({ tools, mode, names }: Toolbox, directive: Directive): readonly WantedCall[] {
  const calls = wantedCalls(tools, mode === 'ANY' ? [names[0] ?? tools[0]!.name] : [], directive)
  return mode === 'NONE' ? [] : calls
}

function readDeclaration(given: unknown, path: string): Tool {
  const declaration = membersOf(given, path, declarationMembers)
  const name = allowed(declaration, path, 'name', isString, 'a string') ?? ''
  if (!/^[a-zA-Z_][\w.:-]{0,127}$/.test(name)) {
    throw new Refusal(
      400,
      `* GenerateContentRequest.${path}.name: Invalid function name. Must start with a letter or an underscore.`
    )
  }
  const { parameters, parametersJsonSchema: schema } = declaration
  if (parameters !== undefined && schema !== undefined)
    throw new Refusal(
      400,
      `* GenerateContentRequest.${path}: parameters and parameters_json_schema may not both be set.`
    )
  if (schema !== undefined && !isObject(schema))
    throw new Refusal(400, `Invalid value at '${path}.parameters_json_schema': Expected an object.`)
  return {
    kind: 'function',
    name,
    schema: schema ?? jsonSchemaOf(parameters ?? { type: 'OBJECT' }, `${path}.parameters`)
  }
}
