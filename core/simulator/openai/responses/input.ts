// Reads the input items of a request for a response.
import { invalid, isObject, isString, missing } from '../../fields.ts'
import type { Fields } from '../../fields.ts'
import { Refusal } from '../../refusal.ts'
import { isSigned } from '../../words/signature.ts'
import { countTokens } from '../../words/tokens.ts'

/** One item, as far as the simulator reads it. */
export interface Item {
  kind: 'message' | 'call' | 'result' | 'reasoning' | 'other'
  /** The role of a message. */
  role?: string
  /** What was said, or the result of a tool. */
  text: string
  tokens: number
  callId?: string
  /** The item as the client sent it, or as an earlier response put it out. */
  raw: Fields
}

const roles = ['user', 'assistant', 'system', 'developer']
const partTypes: Readonly<Record<string, readonly string[]>> = {
  assistant: ['output_text', 'refusal'],
  other: ['input_text', 'input_image', 'input_file']
}
const tokensPerMessage = 4
const tokensPerAttachment = 85
const tokensPerCompaction = 20

/** Finds an output item of an earlier response by its id. */
export type FindItem = (id: string) => Fields | undefined

/**
 * `find`: finds output items of responses that are kept.
 * @throws Refusal
 */
export function readInput(given: unknown, find: FindItem): Item[] {
  if (given === undefined || given === null) return []
  if (isString(given))
    return [message({ type: 'message', role: 'user', content: [{ type: 'input_text', text: given }] }, 'input')]
  if (!Array.isArray(given)) throw invalid('input', 'Expected a string or an array of items.')
  return given.map((item: unknown, i) => readItem(item, `input[${i}]`, find))
}

/** @throws Refusal */
function readItem(item: unknown, path: string, find: FindItem): Item {
  if (!isObject(item)) throw invalid(path, 'Expected an object.')
  const type = item['type'] ?? (item['role'] === undefined ? 'item_reference' : 'message')
  switch (type) {
    case 'message':
      return message(item, path)
    case 'item_reference': {
      const known = find(text(item, path, 'id'))
      if (!known) throw unknownItem(text(item, path, 'id'))
      return readItem(known, path, find)
    }
    case 'function_call':
    case 'custom_tool_call': {
      const said = text(item, path, type === 'function_call' ? 'arguments' : 'input')
      return {
        kind: 'call',
        text: '',
        tokens: countTokens(text(item, path, 'name')) + countTokens(said),
        callId: text(item, path, 'call_id'),
        raw: item
      }
    }
    case 'function_call_output':
    case 'custom_tool_call_output': {
      const callId = text(item, path, 'call_id')
      if (item['output'] === undefined) throw missing(`${path}.output`)
      return { kind: 'result', ...content(item['output'], `${path}.output`, partTypes['other']!), callId, raw: item }
    }
    case 'reasoning':
      return reasoning(item, path, find)
    case 'compaction': {
      if (!isSigned('', item['encrypted_content'])) throw notVerified(item['id'])
      return { kind: 'other', text: '', tokens: tokensPerCompaction, raw: item }
    }
    default:
      if (!isString(type)) throw invalid(`${path}.type`, 'Expected a string.')
      return { kind: 'other', text: '', tokens: countTokens(JSON.stringify(item)), raw: item }
  }
}

function message(item: Fields, path: string): Item {
  const role = text(item, path, 'role')
  if (!roles.includes(role)) throw invalid(`${path}.role`, `Supported values are: ${roles.join(', ')}.`)
  if (item['content'] === undefined) throw missing(`${path}.content`)
  const read = content(item['content'], `${path}.content`, partTypes[role] ?? partTypes['other']!)
  return { kind: 'message', role, text: read.text, tokens: read.tokens + tokensPerMessage, raw: item }
}

function content(given: unknown, path: string, types: readonly string[]): { text: string; tokens: number } {
  if (isString(given)) return { text: given, tokens: countTokens(given) }
  if (!Array.isArray(given)) throw invalid(path, 'Expected a string or an array of parts.')
  const texts: string[] = []
  let tokens = 0
  for (const [i, part] of given.entries()) {
    const place = `${path}[${i}]`
    if (!isObject(part)) throw invalid(place, 'Expected an object.')
    const type = text(part, place, 'type')
    if (!types.includes(type))
      throw invalid(
        place,
        `Invalid value: '${type}'. Supported values are: ${types.map((name) => `'${name}'`).join(', ')}.`
      )
    if (type === 'input_image' || type === 'input_file') tokens += tokensPerAttachment
    else texts.push(text(part, place, type === 'refusal' ? 'refusal' : 'text'))
  }
  const joined = texts.join('\n')
  return { text: joined, tokens: tokens + countTokens(joined) }
}

function reasoning(item: Fields, path: string, find: FindItem): Item {
  const id = text(item, path, 'id')
  const { summary = [], encrypted_content: sealed } = item as { summary?: unknown; encrypted_content?: unknown }
  if (!Array.isArray(summary)) throw invalid(`${path}.summary`, 'Expected an array.')
  const said = summary.map((part: unknown, i) => (isObject(part) ? text(part, `${path}.summary[${i}]`, 'text') : ''))
  if (sealed === undefined || sealed === null) {
    if (!find(id)) throw unknownItem(id)
  } else if (!isSigned('', sealed)) throw notVerified(id)
  return { kind: 'reasoning', text: '', tokens: countTokens(said.join('\n')), raw: item }
}

function unknownItem(id: string): Refusal {
  return new Refusal(404, `Item with id '${id}' not found. Items are not persisted when \`store\` is set to false.`, {
    param: 'input'
  })
}

function notVerified(id: unknown): Refusal {
  return new Refusal(
    400,
    `The encrypted content for item ${isString(id) ? id : 'without an id'} could not be verified.`,
    {
      code: 'invalid_encrypted_content'
    }
  )
}

function text(fields: Fields, path: string, name: string): string {
  const value = fields[name]
  if (value === undefined) throw missing(`${path}.${name}`)
  if (!isString(value)) throw invalid(`${path}.${name}`, 'Expected a string.')
  return value
}

/**
 * Checks that every result belongs to a call before it, and that no call is left without a result.
 * @throws Refusal
 */
export function checkCalls(items: readonly Item[]): void {
  const open = new Set<string>()
  for (const { kind, callId } of items) {
    if (callId === undefined) continue
    if (kind === 'call') open.add(callId)
    else if (!open.delete(callId))
      throw new Refusal(400, `No tool call found for function call output with call_id ${callId}.`, { param: 'input' })
  }
  const [unanswered] = open
  if (unanswered !== undefined)
    throw new Refusal(400, `No tool output found for function call ${unanswered}.`, { param: 'input' })
}
