// Random conversations, and functions that send them through the codecs of protocols.
import fc from 'fast-check'
import { Message } from '../../core/contract/message.ts'
import type { AnswerPart, Candidate, ModelAnswer } from '../../core/protocols/canonical/answer.ts'
import { Assembler, tell } from '../../core/protocols/canonical/assemble.ts'
import { finishOf } from '../../core/protocols/canonical/finish.ts'
import type { AnswerHead, Codec } from '../../core/protocols/canonical/codec.ts'
import { emptyRequest } from '../../core/protocols/canonical/request.ts'
import type {
  AssistantPart,
  Family,
  MediaPart,
  ModelRequest,
  ReasoningPart,
  TextPart,
  Tool,
  ToolCall,
  ToolResult,
  Turn
} from '../../core/protocols/canonical/request.ts'
import { saidArguments } from '../../core/protocols/canonical/said-arguments.ts'
import type { AnswerPlan } from '../../core/protocols/translation/translation.ts'
import { StreamTranslation } from '../../core/protocols/translation/translation.ts'

export const answerHead: AnswerHead = {
  id: '0195f2c0a1b27c3d',
  created: 1_760_000_000,
  model: 'public-model',
  request: {},
  usage: true
}

/** What the protocols involved can carry. */
export interface Means {
  /** The family whose proofs the thoughts have; undefined for none. */
  proofs?: Family | undefined
  /** Whether there are tools that take free text. */
  custom?: boolean
  images?: boolean
  refusals?: boolean
  candidates?: boolean
  reasoning?: boolean
  /** Whether clients say that they want to see thoughts. */
  asksForThoughts?: boolean
  /** Set when the protocol always says whether arguments follow their schema. */
  strict?: boolean
  stop?: boolean
}

/** Text in any script that is not only white space, with characters that JSON has to escape. */
const words: fc.Arbitrary<string> = fc
  .string({
    unit: fc.constantFrom('a', 'B', '7', 'é', '漢', '😀', '"', '\\', '\n', '\u2028', '\u0000', ' ', '<', 'ﬁ'),
    minLength: 1,
    maxLength: 20
  })
  .filter((text) => /[^\s\u200b-\u200d\u2060\ufeff]/.test(text) && text.isWellFormed())

const identifier = fc
  .string({ unit: fc.constantFrom(...'abcdefghijklmnopqrstuvwxyz0123456789_'), minLength: 1, maxLength: 12 })
  .map((text) => `x${text}`)
const json: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    words,
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(identifier, tie('value'), { maxKeys: 3, noNullPrototype: true })
  )
})).value
const input = fc
  .dictionary(identifier, json, { maxKeys: 3, noNullPrototype: true })
  .map((object) => JSON.stringify(object))

const toolNames = ['weather', 'search', 'read_file'] as const

function reasoning({ proofs }: Means): fc.Arbitrary<ReasoningPart> {
  if (!proofs) return words.map((text): ReasoningPart => ({ type: 'reasoning', text }))
  const value = fc.base64String({ minLength: 4, maxLength: 40 })
  return fc.tuple(words, value).map(([text, value]): ReasoningPart => ({
    type: 'reasoning',
    text,
    proof: {
      family: proofs,
      kind: proofs === 'openai' ? 'encrypted' : 'signature',
      value,
      ...(proofs === 'openai' && { id: 'rs_1' })
    }
  }))
}

/** An answer or a turn of the model, in an order that every protocol can express: thoughts, text, calls. */
function parts(means: Means): fc.Arbitrary<AnswerPart[]> {
  const { reasoning: thinks = true, refusals = true, images = false } = means
  const call = fc.tuple(
    fc.constantFrom(...toolNames),
    input,
    fc.string({ unit: fc.constantFrom(...'abcdef0123456789'), minLength: 8, maxLength: 8 })
  )
  return fc
    .record({
      thoughts: thinks ? fc.option(reasoning(means), { nil: undefined }) : fc.constant(undefined),
      text: fc.option(words, { nil: undefined }),
      refusal: refusals ? fc.option(words, { nil: undefined, freq: 4 }) : fc.constant(undefined),
      calls: fc.uniqueArray(call, { maxLength: 3, selector: ([, , id]) => id }),
      image: images ? fc.option(fc.constant('iVBORw0KGgo='), { nil: undefined }) : fc.constant(undefined)
    })
    .map(({ thoughts, text, refusal, calls, image }) => {
      const made: AnswerPart[] = []
      if (thoughts) made.push(thoughts)
      if (text !== undefined) made.push({ type: 'text', text })
      if (refusal !== undefined) made.push({ type: 'refusal', text: refusal })
      if (image !== undefined)
        made.push({ type: 'image', source: { kind: 'data', mimeType: 'image/png', data: image } })
      for (const [name, text, id] of calls)
        made.push({ type: 'tool_call', id: `call_${id}`, name, custom: false, input: text })
      return made
    })
}

const usage = fc
  .record({
    input: fc.nat(9999),
    cached_input: fc.nat(999),
    cache_write: fc.nat(99),
    output: fc.nat(999),
    share: fc.nat(100)
  })
  .map(({ share, ...classes }) => ({ ...classes, reasoning: Math.floor((classes.output * share) / 100) }))

export function answers(means: Means = {}): fc.Arbitrary<ModelAnswer> {
  const candidate = fc
    .tuple(parts(means), fc.constantFrom('stop' as const, 'length' as const, 'content_filter' as const))
    .map(([parts, reason]): Candidate => ({
      parts,
      finish: finishOf(
        { reason },
        parts.some(({ type }) => type === 'tool_call')
      )
    }))
  return fc.record({
    id: fc.constant('upstream-1'),
    candidates: fc.array(candidate, { minLength: 1, maxLength: means.candidates ? 3 : 1 }),
    usage
  })
}

/** A request in which all calls have results, as every protocol can express it. */
export function requests(means: Means = {}): fc.Arbitrary<ModelRequest> {
  const image: fc.Arbitrary<MediaPart> = fc.oneof(
    fc.constant<MediaPart>({ type: 'image', source: { kind: 'data', mimeType: 'image/png', data: 'iVBORw0KGgo=' } }),
    fc.constant<MediaPart>({
      type: 'document',
      source: { kind: 'data', mimeType: 'application/pdf', data: 'JVBERi0=' },
      name: 'a.pdf'
    })
  )
  const user: fc.Arbitrary<Turn> = fc
    .tuple(words, fc.array(image, { maxLength: 2 }))
    .map(([text, media]): Turn => ({ role: 'user', parts: [{ type: 'text', text } as TextPart, ...media] }))
  const exchange = fc
    .tuple(user, parts({ ...means, refusals: false, images: false }), words)
    .map(([ask, said, text]): Turn[] => {
      const calls = said.filter((part): part is ToolCall => part.type === 'tool_call')
      const results = calls.map(({ id, name }): ToolResult => ({
        id,
        name,
        custom: false,
        parts: [{ type: 'text', text }],
        error: false
      }))
      return [
        ask,
        { role: 'assistant', parts: said as AssistantPart[] },
        ...(results.length > 0 ? [{ role: 'tool' as const, results }] : [])
      ]
    })
    .filter(([, turn]) => (turn as { parts: unknown[] }).parts.length > 0)
  const tool = (name: string): fc.Arbitrary<Tool> =>
    fc.record(
      {
        name: fc.constant(name),
        description: fc.option(words, { nil: undefined }),
        strict: fc.constant(means.strict),
        custom: fc.constant(false),
        parameters: fc.constant({ type: 'object', properties: { city: { type: 'string' } }, required: ['city'] })
      },
      { noNullPrototype: true }
    )
  return fc
    .record({
      streaming: fc.boolean(),
      system: fc.option(words, { nil: undefined }),
      exchanges: fc.array(exchange, { maxLength: 3 }),
      last: user,
      tools: fc.subarray([...toolNames]).chain((names) => fc.tuple(...names.map(tool))),
      mode: fc.constantFrom(undefined, 'auto' as const, 'none' as const, 'required' as const),
      maxOutputTokens: fc.integer({ min: 16, max: 9999 }),
      visible: means.asksForThoughts ? fc.boolean() : fc.constant(undefined),
      temperature: fc.option(fc.constantFrom(0, 0.5, 1), { nil: undefined }),
      stop: fc.array(fc.constantFrom('END', '###'), { maxLength: means.stop === false ? 0 : 2 })
    })
    .map(({ streaming, system, exchanges, last, tools, mode, visible, ...rest }): ModelRequest => ({
      ...emptyRequest('public-model', streaming),
      ...rest,
      // The calls of one conversation need different ids.
      turns: distinct([
        ...(system === undefined
          ? []
          : [{ role: 'system', parts: [{ type: 'text', text: system }], developer: false } as Turn]),
        ...exchanges.flat(),
        last
      ]),
      tools,
      reasoning: { effort: undefined, tokens: undefined, visible },
      toolChoice: tools.length > 0 && mode ? { mode } : undefined
    }))
}

function distinct(turns: Turn[]): Turn[] {
  let count = 0
  return turns.map((turn) => {
    const rename = (id: string): string => `${id}_${count}`
    if (turn.role === 'tool')
      return { ...turn, results: turn.results.map((result) => ({ ...result, id: rename(result.id) })) }
    if (turn.role !== 'assistant') return turn
    count++
    return {
      ...turn,
      parts: turn.parts.map((part) => (part.type === 'tool_call' ? { ...part, id: rename(part.id) } : part))
    }
  })
}

/** The stream that an upstream with this protocol would send. */
export function streamOf(codec: Codec, answer: ModelAnswer): Message[] {
  const events: Message[] = []
  const encoder = codec.encodeStream(answerHead)
  const write = (data: string, name: string): void => void events.push(Message.event(data, name))
  tell(
    answer,
    saidArguments((event) => encoder.push(event, write))
  )
  return events
}

/**
 * What a client reads from a stream.
 * @throws when the stream is not complete
 */
export function readStream(codec: Codec, events: readonly Message[]): ModelAnswer {
  const decoder = codec.decodeStream(answerHead.id)
  const assembler = new Assembler()
  const emit = saidArguments((event) => assembler.see(event))
  for (const event of events) decoder.push(event, emit)
  decoder.end(emit)
  return assembler.result()
}

/**
 * Translates a stream of an upstream for a client.
 * @throws when the upstream's stream is not complete
 */
export function translateStream(plan: AnswerPlan, events: readonly Message[], head = answerHead): Message[] {
  const written: Message[] = []
  const translation = new StreamTranslation(plan, head, (data, name) => written.push(Message.event(data, name)))
  for (const event of events) translation.push(event)
  translation.end()
  return written
}
