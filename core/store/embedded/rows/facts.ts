// What requests are searched by: the facts of a record, and the conditions that they meet.
import type { RecordRow } from './record-text.ts'
import type { RecordGist } from '../../requests.ts'

/** Separates the values of a fact that may have several. */
const listSeparator = '\n'

/** The facts that are texts, in the order of a block's columns. `channels` and `tags` may have several values. */
export const texts = [
  'tenant',
  'key',
  'model',
  'project',
  'member',
  'endpoint',
  'channels',
  'code',
  'outcome',
  'tags'
] as const
/** The facts that are numbers: `time` in Unix milliseconds, `cost` in nano-dollars, `duration` in milliseconds. */
export const numbers = ['time', 'status', 'cost', 'duration'] as const

export type TextFact = (typeof texts)[number]
type NumberFact = (typeof numbers)[number]

/** The facts of one record, in the order of the columns. An empty text stands for none. */
export interface Facts {
  readonly texts: readonly string[]
  readonly numbers: readonly number[]
}

/** The columns of the table request that are facts. */
export type FactsRow = Pick<RecordRow, 'tenant' | 'key' | 'model' | 'time'>

/** The facts of a record: of its row, and of what it says beside that. */
export function factsOf({ tenant, key, model, time }: FactsRow, gist: RecordGist): Facts {
  const { project, member, endpoint, error_code: code, outcome, status, cost_nano, duration_ms } = gist
  return {
    texts: [
      tenant ?? '',
      key ?? '',
      model ?? '',
      project ?? '',
      member ?? '',
      endpoint,
      channelsOf(gist),
      code ?? '',
      outcome,
      tagsOf(gist)
    ],
    numbers: [Number(time), status, Number(cost_nano), duration_ms]
  }
}

function channelsOf({ channel, attempts }: RecordGist): string {
  return attempts.length < 2
    ? (attempts[0]?.channel ?? channel ?? '')
    : [...new Set(attempts.map((attempt) => attempt.channel))].join(listSeparator)
}

function tagsOf({ tags }: RecordGist): string {
  if (!tags) return ''
  return Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(listSeparator)
}

/** A search by facts. All conditions hold together. Bounds are included. */
export interface FactQuery {
  /** The value of a fact, or one of several values. */
  readonly texts: Partial<Readonly<Record<TextFact, string>>>
  readonly from: Partial<Readonly<Record<NumberFact, number>>>
  readonly to: Partial<Readonly<Record<NumberFact, number>>>
  /** Records with any of these are left out; absent: none is. */
  readonly not?: Without | undefined
}

/** What leaves a record out: the value of a text, and statuses from and to one. */
interface Without {
  readonly texts: Partial<Readonly<Record<TextFact, string>>>
  readonly status?: readonly [from: number, to: number] | undefined
}

/** Whether a record matches. */
export function matches(facts: Facts, query: FactQuery): boolean {
  const { texts: out = {}, status: [least, most] = nothing } = query.not ?? {}
  const status = facts.numbers[numbers.indexOf('status')]!
  return (
    texts.every((name, at) => query.texts[name] === undefined || has(name, facts.texts[at]!, query.texts[name])) &&
    !texts.some((name, at) => out[name] !== undefined && has(name, facts.texts[at]!, out[name])) &&
    !(status >= least && status <= most) &&
    numbers.every((name, at) => {
      const number = facts.numbers[at]!
      return number >= (query.from[name] ?? -Infinity) && number <= (query.to[name] ?? Infinity)
    })
  )
}

/** Bounds that nothing is within. */
const nothing = [Infinity, -Infinity] as const

/** Whether a fact has a value. A tag is asked for by its name alone, or as `name=value`. */
export function has(name: TextFact, fact: string, wanted: string): boolean {
  if (name === 'tags') return fact.split(listSeparator).some((tag) => tag === wanted || tag.startsWith(`${wanted}=`))
  return name === 'channels' ? fact.split(listSeparator).includes(wanted) : fact === wanted
}

/** The least and the greatest value of each number of a block, in the order of {@link boundColumns}. */
export const boundColumns = numbers.flatMap((name) => [`${name}_from`, `${name}_to`])

/** The bounds of a search, in the order of {@link boundColumns}: a block matches when its bounds overlap them. */
export function boundsOf({ from, to }: FactQuery): number[] {
  return numbers.flatMap((name) => [to[name] ?? Number.MAX_VALUE, from[name] ?? -Number.MAX_VALUE])
}
