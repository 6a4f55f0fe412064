// Composes one answer to a request, whatever its protocol.
import type { Directive } from '../directive.ts'
import { Refusal } from '../refusal.ts'
import { Dice, writeProse } from './prose.ts'
import type { Subject } from './prose.ts'
import { sampleOf } from './sample.ts'
import { fillerText, writtenText } from './text.ts'
import type { Text } from './text.ts'
import { countTokens } from './tokens.ts'
import type { WantedCall } from './tools.ts'

/** What every protocol reads its requests into. */
export interface Conversation extends Subject {
  model: string
  directive: Directive
  promptTokens: number
  /** The limit of one answer, in tokens, reasoning included. */
  maxTokens: number | undefined
  stop: readonly string[]
  calls: readonly WantedCall[]
  /** Whether the answer has to be JSON, and its schema if there is one. */
  json: { schema: unknown } | undefined
  /** Hexadecimal digits, the same for equal requests. */
  digest: string
}

/** A call of the answer. */
export interface MadeCall {
  /** Unique among all calls of one request. */
  serial: string
  kind: WantedCall['kind']
  name: string
  /** The arguments as JSON, or the text of a custom tool. */
  input: Text
  /** The arguments or the text in full, even if the token limit cut `input`. */
  value: unknown
}

/** One answer. */
export interface Composition {
  reasoning: Text
  /** Undefined when there are only calls. */
  text: Text | undefined
  calls: readonly MadeCall[]
  /** Whether the token limit was reached. */
  cut: boolean
  /** The tokens of everything in it. */
  tokens: number
}

/** The most text that all answers together may hold in memory. Only streamed filler need not be held. */
const largestText = 16 * 1024 * 1024
/** A rough estimate of the bytes of a token. */
const bytesPerToken = 8

/**
 * `streamed`: whether filler is streamed, so that it need not be held.
 * @throws Refusal when a directive asks for more text than may be held
 */
export function checkSize(
  { text = '', tokens = 0, chunks = 0, bytes = 0, reasoning = '' }: Directive,
  streamed: boolean,
  answers: number
): void {
  const held = text.length + reasoning.length + Math.max(tokens, chunks) * bytesPerToken + (streamed ? 0 : bytes)
  if (held * answers <= largestText) return
  throw new Refusal(
    400,
    `Simulator directive: more than ${largestText} bytes of text; streamed filler (bytes) has no such limit.`,
    {
      code: 'invalid_directive'
    }
  )
}

/** Anything with the digest of a request. */
export type Digested = Pick<Conversation, 'digest'>

/** The seed from which an answer is composed. */
export function seedOf({ digest }: Digested): number {
  return Number.parseInt(digest.slice(0, 8), 16)
}

/** A second in 2026 that depends only on the request, so that equal requests get equal answers. */
export function createdOf(request: Digested): number {
  return 1_767_225_600 + (seedOf(request) % 31_536_000)
}

/** Composes the answer, or the n-th of several. */
export function compose(conversation: Conversation, n = 0): Composition {
  const { directive, maxTokens, digest } = conversation
  const dice = new Dice(seedOf(conversation) + n)
  const reasoning = writtenText(directive.reasoning ?? '', { tokens: maxTokens })
  let left = maxTokens === undefined ? undefined : Math.max(maxTokens - reasoning.tokens, 0)
  const calls = conversation.calls.map((wanted, i): MadeCall => {
    const value =
      wanted.kind === 'custom'
        ? writeProse(dice, conversation, undefined)
        : (wanted.arguments ?? sampleOf(wanted.schema, dice))
    const input = writtenText(typeof value === 'string' ? value : JSON.stringify(value), { tokens: left })
    if (left !== undefined) left -= input.tokens
    return { serial: `${digest.slice(0, 20)}${n}_${i}`, kind: wanted.kind, name: wanted.name, input, value }
  })
  // A call comes without text unless the directive gives one.
  const text = calls.length > 0 && directive.text === undefined ? undefined : writeText(conversation, dice, left)
  return {
    reasoning,
    text,
    calls,
    cut: reasoning.cut || text?.cut === true || calls.some((made) => made.input.cut),
    tokens: calls.reduce(
      (sum, { name, input }) => sum + countTokens(name) + input.tokens,
      reasoning.tokens + (text?.tokens ?? 0)
    )
  }
}

function writeText(conversation: Conversation, dice: Dice, tokens: number | undefined): Text {
  const { directive, stop, json } = conversation
  const limits = { tokens, stop, chunks: directive.chunks }
  if (directive.bytes !== undefined) return fillerText(directive.bytes, limits)
  if (directive.text !== undefined) return writtenText(directive.text, limits)
  const prose = writeProse(dice, conversation, directive.tokens ?? directive.chunks)
  if (!json) return writtenText(prose, limits)
  const value = json.schema === undefined ? { simulator: true, answer: prose } : sampleOf(json.schema, dice)
  return writtenText(JSON.stringify(value), limits)
}
