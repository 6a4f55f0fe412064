// What upstreams tell of their limits in the heads of their answers: which headers say what is left, and until when.

/** One limit of an upstream, as its answer told of it. */
export interface ToldLimit {
  /** What it limits, in words for operators: `requests`, `tokens a minute`. The same for the same limit. */
  readonly name: string
  /** What it limits, for metrics. */
  readonly of: 'requests' | 'tokens'
  /** Undefined when it was not told. Never 0. */
  readonly limit: number | undefined
  /** Never negative. */
  readonly remaining: number
  /** Milliseconds until it is as good as new, at most 25 hours; undefined when it was not told. */
  readonly resetMs: number | undefined
  /** Whether each model has a limit of its own; otherwise all models of the account share it. */
  readonly perModel: boolean
}

/** The headers of one limit; their names are in lower case. */
interface Row {
  readonly name: string
  readonly of: ToldLimit['of']
  readonly limit: string
  readonly remaining: string
  readonly reset: string
  readonly perModel: boolean
  readonly source: string
  /** When the source was read. */
  readonly read: string
}

const openai = 'https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers'
const anthropic = 'https://platform.claude.com/docs/en/api/rate-limits#response-headers'
const cerebras = 'https://inference-docs.cerebras.ai/support/rate-limits and SambaNova, with fewer of them'
const openRouter = 'https://openrouter.ai/docs/api/reference/limits and others that name one limit only'

const windows = ['minute', 'hour', 'day'] as const
const counted = ['requests', 'tokens'] as const

const rows: readonly Row[] = [
  // OpenAI; Azure and Groq use the same names (Groq's requests are per day).
  ...counted.map((of): Row => ({
    name: of,
    of,
    limit: `x-ratelimit-limit-${of}`,
    remaining: `x-ratelimit-remaining-${of}`,
    reset: `x-ratelimit-reset-${of}`,
    perModel: true,
    source: openai,
    read: '2026-11-23'
  })),
  // Anthropic.
  ...(['requests', 'tokens', 'input-tokens', 'output-tokens'] as const).map((of): Row => ({
    name: of.replace('-', ' '),
    of: of === 'requests' ? 'requests' : 'tokens',
    limit: `anthropic-ratelimit-${of}-limit`,
    remaining: `anthropic-ratelimit-${of}-remaining`,
    reset: `anthropic-ratelimit-${of}-reset`,
    perModel: true,
    source: anthropic,
    read: '2026-11-23'
  })),
  // Cerebras, SambaNova.
  ...counted.flatMap((of) =>
    windows.map((window): Row => ({
      name: `${of} ${window === 'hour' ? 'an' : 'a'} ${window}`,
      of,
      limit: `x-ratelimit-limit-${of}-${window}`,
      remaining: `x-ratelimit-remaining-${of}-${window}`,
      reset: `x-ratelimit-reset-${of}-${window}`,
      perModel: true,
      source: cerebras,
      read: '2026-11-23'
    }))
  ),
  // OpenRouter.
  {
    name: 'requests of all models',
    of: 'requests',
    limit: 'x-ratelimit-limit',
    remaining: 'x-ratelimit-remaining',
    reset: 'x-ratelimit-reset',
    perModel: false,
    source: openRouter,
    read: '2026-11-23'
  }
]

/** As transports hand them on. */
type Headers = Readonly<Record<string, string | string[] | undefined>>

const none: readonly ToldLimit[] = []

/** No window of a vendor is longer than a day. */
const longestReset = 25 * 3_600_000
/** What is longer says nothing that is known here. */
const longestValue = 64

/** The limits that the head of an answer tells of; the same empty list for one that tells of none. */
export function toldLimits(headers: Headers, now: () => number = Date.now): readonly ToldLimit[] {
  let found: ToldLimit[] | undefined
  for (let at = 0; at < rows.length; at++) {
    const row = rows[at]!
    if (headers[row.remaining] === undefined) continue
    const { name, of, perModel } = row
    const remaining = numberIn(headers[row.remaining])
    const limit = numberIn(headers[row.limit])
    // A limit of nothing is one that does not apply.
    if (remaining === undefined || (limit !== undefined && limit <= 0)) continue
    const resetMs = resetIn(headers[row.reset], now)
    ;(found ??= []).push({ name, of, limit, remaining: Math.max(0, remaining), resetMs, perModel })
  }
  return found ?? none
}

/**
 * How long an upstream that refused asks to wait, in milliseconds: the longest reset among its limits of which nothing
 * is left. Undefined when none is told.
 */
export function resetOfSpent(headers: Headers): number | undefined {
  let longest: number | undefined
  for (const { remaining, resetMs } of toldLimits(headers))
    if (remaining === 0 && resetMs !== undefined && resetMs > (longest ?? 0)) longest = resetMs
  return longest
}

const number = /^-?\d{1,15}(?:\.\d{1,15})?$/

function numberIn(value: Headers[string]): number | undefined {
  return typeof value === 'string' && value.length <= longestValue && number.test(value) ? Number(value) : undefined
}

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const duration = /^(?:\d{1,12}(?:\.\d{1,12})?(?:ms|s|m|h|d))+$/

/**
 * A time from now, in whichever of the ways it is written: a date (RFC 3339), a duration (`6m0s`), Unix time in
 * milliseconds or seconds, or seconds. They cannot be taken for each other.
 */
function resetIn(value: Headers[string], now: () => number): number | undefined {
  if (typeof value !== 'string' || value.length > longestValue) return undefined
  const ms = millisecondsIn(value, now)
  return ms === undefined || Number.isNaN(ms) ? undefined : Math.min(Math.max(0, Math.round(ms)), longestReset)
}

function millisecondsIn(value: string, now: () => number): number | undefined {
  if (/^\d{4}-\d\d-\d\dT/.test(value)) return Date.parse(value) - now()
  if (duration.test(value)) {
    let total = 0
    for (const [, digits, unit] of value.matchAll(/([\d.]+)([a-z]+)/g)) total += Number(digits) * units[unit!]!
    return total
  }
  const plain = numberIn(value)
  if (plain === undefined) return undefined
  return plain > 1e12 ? plain - now() : plain > 1e9 ? plain * 1000 - now() : plain * 1000
}
