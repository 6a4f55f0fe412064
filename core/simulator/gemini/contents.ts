// Reads the contents of a request, and checks their order by Gemini's rules.
import { isString } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import { allowed, listOf, membersOf, wrong } from './fields.ts'
import { readPart } from './parts.ts'
import type { Modality, Part } from './parts.ts'

/** One turn of a conversation. */
export interface Content {
  role: 'user' | 'model'
  parts: readonly Part[]
}

const tokensPerContent = 4

/** The tokens of contents and of everything in them, by modality. */
export function tokensOf(contents: readonly Content[]): Map<Modality, number> {
  const sums = new Map<Modality, number>([['TEXT', contents.length * tokensPerContent]])
  for (const { parts } of contents)
    for (const { modality, tokens } of parts) sums.set(modality, (sums.get(modality) ?? 0) + tokens)
  return sums
}

/** @throws Refusal */
export function readContent(given: unknown, path: string): Content {
  const content = membersOf(given, path, ['role', 'parts'])
  const role = allowed(content, path, 'role', isString, 'a string') ?? 'user'
  if (!['user', 'model', 'function'].includes(role)) throw new Refusal(400, 'Please use a valid role: user, model.')
  const parts = listOf(content, path, 'parts').map((part, i) => readPart(part, `${path}.parts[${i}]`))
  if (parts.length === 0) throw wrong(`${path}.parts`, 'contents.parts must not be empty.')
  if (role !== 'model' && isBlank(parts)) throw wrong(`${path}.parts[0].text`, 'text must not be empty.')
  return { role: role === 'model' ? 'model' : 'user', parts }
}

function isBlank(parts: readonly Part[]): boolean {
  return parts.length === 1 && parts[0]!.kind === 'text' && parts[0]!.text === ''
}

/**
 * `model`: decides whether calls need their signatures.
 * @throws Refusal
 */
export function readContents(body: Fields, model: string): Content[] {
  const contents = listOf(body, '', 'contents')
    .map((content, i) => readContent(content, `GenerateContentRequest.contents[${i}]`))
    // The last event of a stream may have no text, and the vendor's own library sends it back as a content.
    .filter(({ role, parts }) => role !== 'model' || !isBlank(parts))
  if (contents.length === 0) throw wrong('GenerateContentRequest.contents', 'contents is not specified')
  for (const [i, content] of contents.entries()) checkCalls(contents, i, content)
  if (contents.at(-1)!.role === 'model')
    throw new Refusal(400, 'Please ensure that multiturn requests end with a user role or a function response.')
  if (model.startsWith('gemini-3')) checkSignatures(contents)
  return contents
}

const some = (content: Content | undefined, kind: Part['kind']): Part[] =>
  content?.parts.filter((part) => part.kind === kind) ?? []

function checkCalls(contents: readonly Content[], i: number, content: Content): void {
  const responses = some(content, 'response')
  const calls = some(contents[i - 1], 'call')
  if (responses.length !== calls.length || (responses.length > 0 && some(content, 'text').length > 0)) {
    throw new Refusal(
      400,
      'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.'
    )
  }
  const unknown = responses.find(
    ({ name, id }) =>
      !calls.some((call) => call.name === name && (id === undefined || call.id === undefined || call.id === id))
  )
  if (unknown)
    throw new Refusal(
      400,
      `Function response ${JSON.stringify(unknown.name)} does not match any function call of the function call turn.`
    )
  if (some(content, 'call').length > 0 && contents[i - 1]?.role !== 'user') {
    throw new Refusal(
      400,
      'Please ensure that function call turn comes immediately after a user turn or after a function response turn.'
    )
  }
}

/** Checks that the first call of every step has a signature, since the last text of the user. */
function checkSignatures(contents: readonly Content[]): void {
  const spoken = contents.findLastIndex((content) => content.role === 'user' && some(content, 'response').length === 0)
  for (const content of contents.slice(spoken + 1)) {
    const [first] = some(content, 'call')
    if (first && first.signature === undefined) {
      throw new Refusal(
        400,
        `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly: ${first.name}.`
      )
    }
  }
}
