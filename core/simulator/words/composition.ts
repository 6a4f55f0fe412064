// Writes one answer from what a request says, whatever the protocol it came in.
import type { Directive } from '../directive.ts'
import { Refusal } from '../refusal.ts'
import { Dice, writeProse } from './prose.ts'
import type { Subject } from './prose.ts'
import { sampleOf } from './sample.ts'
import { fillerText, writtenText } from './text.ts'
import type { Text } from './text.ts'
import { countTokens } from './tokens.ts'
import type { WantedCall } from './tools.ts'

/** What protocols read their requests into. */
export interface Conversation extends Subject {
  model: string
  directive: Directive
  promptTokens: number
  /** Of one answer, reasoning included. */
  maxTokens: number | undefined
  stop: readonly string[]
  calls: readonly WantedCall[]
  /** Answer in JSON, of this schema if there is one. */
  json: { schema: unknown } | undefined
  /** Hexadecimal, and the same for the same request. */
  digest: string
}

/** A call that was made. */
export interface MadeCall {
  /** Distinct among all calls of one request. */
  serial: string
  kind: WantedCall['kind']
  name: string
  /** The arguments as JSON, or the text of a custom tool. */
  input: Text
  /** The arguments, or the text, in full even where the token limit cut `input`. */
  value: unknown
}

/** One answer. */
export interface Composition {
  reasoning: Text
  /** Undefined when there are only calls. */
  text: Text | undefined
  calls: readonly MadeCall[]
  /** The token limit was reached. */
  cut: boolean
  /** Of everything in it. */
  tokens: number
}

/** Of the text of all answers together, when it has to be held: everything but streamed filler. */
const largestText = 16 * 1024 * 1024
/** A token and its share of the text, roughly. */
const bytesPerToken = 8

/** @throws Refusal when a directive asks for more text than may be held; `streamed` filler may be more */
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

/** What has the digest of a request. */
export type Digested = Pick<Conversation, 'digest'>

/** The number that decides what is written. */
export function seedOf({ digest }: Digested): number {
  return Number.parseInt(digest.slice(0, 8), 16)
}

/** A second of 2026 that follows from the request: a real clock would make equal requests differ. */
export function createdOf(request: Digested): number {
  return 1_767_225_600 + (seedOf(request) % 31_536_000)
}

/** The answer, or the n-th of several. */
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
  // A tool call comes alone unless the directive wrote a text to go with it.
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
