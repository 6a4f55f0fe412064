// Directives: what a request may tell the simulator to do, written in its text as `[[simulator {…}]]`.
import { isBoolean, isObject, isString } from './fields.ts'
import { Refusal } from './refusal.ts'

/** The ways to break off an answer; DIRECTIVES.md describes them. */
const cuts = ['reset', 'fin', 'stall', 'end', 'error'] as const

/** The line ends of a stream. */
export const lineEnds = { lf: '\n', crlf: '\r\n', cr: '\r' } as const

/** All members are optional; DIRECTIVES.md describes them. Times are in milliseconds. */
export interface Directive {
  model?: string
  text?: string
  tokens?: number
  bytes?: number
  chunks?: number
  images?: number
  reasoning?: string
  redacted?: boolean
  refusal?: boolean
  block?: string
  call?: string | string[]
  arguments?: Record<string, unknown>
  finish?: string | null
  usage?: Record<string, unknown> | null
  cached_tokens?: number
  written_tokens?: number
  first_byte_ms?: number
  first_event_ms?: number
  gap_ms?: number
  role?: boolean
  done?: boolean
  comments?: boolean
  line_end?: keyof typeof lineEnds
  status?: number
  headers?: Record<string, string>
  body?: unknown
  content_length?: number
  cut?: (typeof cuts)[number]
  after_events?: number
  after_bytes?: number
  error?: unknown
  queue_ms?: number
  work_ms?: number
  expire_ms?: number
  fail?: Record<string, unknown>
  states?: Record<string, string>
  later?: Directive[]
}

type Check = readonly [accepts: (value: unknown) => boolean, what: string]

const text: Check = [isString, 'a string']
const flag: Check = [isBoolean, 'true or false']
const object: Check = [isObject, 'an object']
const anything: Check = [() => true, 'anything']
const count = (largest: number): Check => [
  (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= largest,
  `an integer from 0 to ${largest}`
]
const time = count(3_600_000)
const oneOf = (words: readonly string[]): Check => [
  (value) => words.includes(value as string),
  `one of ${words.join(', ')}`
]

/** Headers that a directive may not set: `content_length` and `cut` control framing, and node could not send others. */
const framing = /^(connection|content-length|transfer-encoding|trailer|upgrade|keep-alive)$/i

function isHeader([name, value]: [string, unknown]): boolean {
  return (
    /^[\w!#$%&'*+.^`|~-]+$/.test(name) &&
    !framing.test(name) &&
    typeof value === 'string' &&
    /^[\t\x20-\x7e]*$/.test(value)
  )
}

const members: Readonly<Record<keyof Directive, Check>> = {
  model: text,
  text,
  tokens: count(1_000_000),
  bytes: count(2 ** 31),
  chunks: count(1_000_000),
  images: count(100),
  reasoning: text,
  redacted: flag,
  refusal: flag,
  block: text,
  call: [
    (value) => isString(value) || (Array.isArray(value) && value.every(isString)),
    'the name of a tool, or several in an array'
  ],
  arguments: object,
  finish: [(value) => value === null || isString(value), 'a string or null'],
  usage: [(value) => value === null || isObject(value), 'an object or null'],
  cached_tokens: count(1_000_000_000),
  written_tokens: count(1_000_000_000),
  first_byte_ms: time,
  first_event_ms: time,
  gap_ms: time,
  role: flag,
  done: flag,
  comments: flag,
  line_end: oneOf(Object.keys(lineEnds)),
  status: [
    (value) => Number.isInteger(value) && (value as number) >= 200 && (value as number) <= 599,
    'an HTTP status from 200 to 599'
  ],
  headers: [
    (value) => isObject(value) && Object.entries(value).every(isHeader),
    'an object of header fields, without those that frame a body'
  ],
  body: anything,
  content_length: count(2 ** 40),
  cut: oneOf(cuts),
  after_events: count(1_000_000_000),
  after_bytes: count(2 ** 40),
  error: anything,
  queue_ms: time,
  work_ms: time,
  expire_ms: time,
  fail: object,
  states: [(value) => isObject(value) && Object.values(value).every(isString), 'an object of words'],
  later: [
    (value) => Array.isArray(value) && value.every((entry) => problemOf(entry) === undefined),
    'an array of directives, without a mistake in any'
  ]
}

const opening = '[[simulator '
const closing = ']]'
/** Bounds on the search for the end, as brackets inside the JSON resemble it. */
const longest = 1024 * 1024
const mostClosings = 100

/** The directive in a text, empty if there is none, and the text without it. */
export interface Directed {
  directive: Directive
  prompt: string
}

/**
 * Takes the first directive out of a text. One that names another model than `model` is ignored. `param`: the member of
 * the request that has the text.
 * @throws Refusal when the directive is malformed, so that a typing error is noticed
 */
export function takeDirective(source: string, model: string, param: string): Directed {
  const start = source.indexOf(opening)
  if (start === -1) return { directive: {}, prompt: source }
  const limited = source.slice(0, start + longest)
  let end = limited.indexOf(closing, start)
  for (let tries = 0; end !== -1 && tries < mostClosings; tries++, end = limited.indexOf(closing, end + 1)) {
    let value: unknown
    try {
      value = JSON.parse(source.slice(start + opening.length, end))
    } catch {
      // These brackets were part of the JSON.
      continue
    }
    const wrong = problemOf(value)
    if (wrong !== undefined) throw refuse(wrong, param)
    const directive = value as Directive
    const prompt = source.slice(0, start).trimEnd() + source.slice(end + closing.length)
    return {
      directive: directive.model === undefined || directive.model === model ? directive : {},
      prompt: prompt.trim()
    }
  }
  throw refuse(`the text after ${opening.trim()} is not JSON closed by ${closing}`, param)
}

/**
 * Takes the directive out of the first of these texts that has one.
 * @throws Refusal as {@link takeDirective}
 */
export function takeFromAny(
  sources: readonly string[],
  model: string,
  param: string
): { directive: Directive; prompts: string[] } {
  const at = sources.findIndex((source) => source.includes(opening))
  if (at === -1) return { directive: {}, prompts: [...sources] }
  const { directive, prompt } = takeDirective(sources[at]!, model, param)
  return { directive, prompts: sources.with(at, prompt) }
}

function problemOf(value: unknown): string | undefined {
  if (!isObject(value)) return 'it must be a JSON object'
  for (const [name, given] of Object.entries(value)) {
    const member = Object.hasOwn(members, name) ? members[name as keyof Directive] : undefined
    if (!member) return `it has no member ${JSON.stringify(name)}; there are ${Object.keys(members).join(', ')}`
    if (!member[0](given)) return `${name} must be ${member[1]}`
  }
  return undefined
}

function refuse(why: string, param: string): Refusal {
  return new Refusal(400, `Simulator directive: ${why}.`, { param, code: 'invalid_directive' })
}
