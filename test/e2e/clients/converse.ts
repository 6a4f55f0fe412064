// Answers Converse as the simulator answers the other protocols: by the directive in the last text of the user.
import type { AnswerPart, ModelAnswer } from '../../../core/protocols/canonical/answer.ts'
import type { BedrockAnswer, BedrockAsked } from '../../kit/bedrock.ts'
import { converseAnswer, converseBytes, converseEvents } from '../../kit/converse.ts'

type Json = Record<string, any>

/** What is asked of an answer. */
interface Directive {
  text?: string
  call?: string | readonly string[]
  arguments?: unknown
  reasoning?: string
  cached_tokens?: number
  tokens?: number
}

/** What its thoughts are signed with, and have to come back with. */
const signature = 'c2lnbmVkIGJ5IHNjcmlwdA=='

/** The answer to a request; an error when thoughts that led to a call did not come back as they were. */
export function directed({ operation, body }: BedrockAsked): BedrockAnswer {
  const messages = body['messages'] as { role: string; content: Json[] }[]
  const directive = directiveIn(messages)
  const results = messages
    .at(-1)!
    .content.flatMap((block) => (block['toolResult'] ? [block['toolResult'] as Json] : []))
  if (results.length > 0 && directive.reasoning !== undefined) {
    const { reasoningContent } = messages.at(-2)!.content[0]!
    if (reasoningContent?.reasoningText?.signature !== signature)
      return { status: 400, json: { message: 'the thoughts before the call did not come back' } }
  }
  const parts = partsOf(directive, results, messages.length)
  const most = (body['inferenceConfig']?.maxTokens as number | undefined) ?? 4096
  const calls = parts.some(({ type }) => type === 'tool_call')
  const reason = (directive.tokens ?? 0) > most ? 'length' : calls ? 'tool_calls' : 'stop'
  const cached = directive.cached_tokens ?? 0
  const answer: ModelAnswer = {
    id: '',
    candidates: [{ parts, finish: { reason } }],
    usage: { input: 20, cached_input: cached, cache_write: 0, output: reason === 'length' ? most : 11, reasoning: 0 }
  }
  return operation === 'converse-stream'
    ? { frames: converseEvents(answer).map((event) => converseBytes([event])) }
    : { json: converseAnswer(answer) }
}

function directiveIn(messages: readonly { role: string; content: readonly Json[] }[]): Directive {
  const texts = messages.flatMap(({ role, content }) =>
    role === 'user' ? content.flatMap((block) => (typeof block['text'] === 'string' ? [block['text']] : [])) : []
  )
  const [, found = '{}'] =
    /\[\[simulator ([^]*)\]\]/.exec(texts.findLast((text) => text.includes('[[simulator')) ?? '') ?? []
  return JSON.parse(found) as Directive
}

function partsOf(directive: Directive, results: readonly Json[], turn: number): AnswerPart[] {
  const { reasoning, text, call, arguments: input = {} } = directive
  const parts: AnswerPart[] = []
  if (reasoning !== undefined)
    parts.push({
      type: 'reasoning',
      text: reasoning,
      proof: { family: 'bedrock', kind: 'signature', value: signature }
    })
  if (results.length > 0) {
    const told = results
      .map(({ content }) => (content as Json[]).map((block) => block['text'] as string).join(''))
      .join(' ')
    return [...parts, { type: 'text', text: text ?? `The tool answered "${told}".` }]
  }
  if (text !== undefined || call === undefined) parts.push({ type: 'text', text: text ?? 'Word after word after word' })
  const names = typeof call === 'string' ? [call] : (call ?? [])
  for (const [at, name] of names.entries())
    parts.push({ type: 'tool_call', id: `tooluse_${turn}_${at}`, name, custom: false, input: JSON.stringify(input) })
  return parts
}
