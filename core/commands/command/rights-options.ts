// The options by which commands give rights to tenants, projects, members and keys.
import { UsageError } from './command.ts'
import type { Given, Options } from './command.ts'

/** What a level or key may use and spend. In commands that change something, `none` takes it out. */
export const rightsOptions = {
  models: { value: 'A,B', list: true, text: 'models it may use; * stands for anything' },
  endpoints: { value: 'A,B', list: true, text: 'endpoints it may call' },
  rps: { value: 'N', text: 'requests per second' },
  rpm: { value: 'N', text: 'requests per minute' },
  tpm: { value: 'N', text: 'tokens per minute' },
  concurrency: { value: 'N', text: 'requests at one time' },
  'model-limits': {
    value: 'LIMITS',
    text: 'limits of models by name or pattern: "gpt-* rpm=60 tpm=10000, o3 rps=1"'
  },
  budget: {
    value: 'USD/PERIOD',
    list: true,
    text: 'what it may spend: 5/day, 20/week, 100/month, 100/30d, 1000/total, or several with commas between; with alerts: "100/month at 50% 80%"'
  },
  expires: { value: 'DATE', text: 'refused from then on: 2027-01-01' },
  tags: { value: 'A=X,B=Y', list: true, text: 'words to account by' },
  enabled: { value: 'yes|no', text: 'no refuses its requests until it is yes again' }
} as const satisfies Options

const limits = ['rps', 'rpm', 'tpm', 'concurrency'] as const

/** The options in the form that the admin API takes; null for `none`. Options that were not given are left out. */
export function rightsOf(options: Given<typeof rightsOptions>): Record<string, unknown> {
  const { models, endpoints, budget, expires, tags, enabled } = options
  const rights = {
    models: optionalList(models, (values) => values),
    endpoints: optionalList(endpoints, (values) => values),
    limits: limitsOf(options),
    budget: optionalList(budget, readBudgets),
    expires: optional(expires, (text) => text),
    tags: optionalList(tags, readTags),
    enabled: optional(enabled, readSwitch)
  }
  return Object.fromEntries(Object.entries(rights).filter(([, value]) => value !== undefined))
}

function limitsOf(options: Given<typeof rightsOptions>): object | undefined {
  const given = Object.entries({
    ...Object.fromEntries(limits.map((limit) => [limit, optional(options[limit], (text) => readNumber(limit, text))])),
    models: optional(options['model-limits'], readModelLimits)
  }).filter(([, value]) => value !== undefined)
  return given.length === 0 ? undefined : Object.fromEntries(given)
}

/** A pattern, which has no spaces, with its limits or `none`, and a comma in front of the next one. */
const modelLimits = new RegExp(`(\\S+)((?:\\s+(?:${limits.join('|')})=\\d{1,15})+|\\s+none)(?:,\\s+|\\s*$)`, 'y')

/** Reads limits of models by their patterns; null for those that are taken out. */
function readModelLimits(text: string): Record<string, object | null> {
  const read = new Map<string, object | null>()
  modelLimits.lastIndex = 0
  const trimmed = text.trim()
  for (let end = 0; end < trimmed.length; end = modelLimits.lastIndex) {
    const [, pattern, given] = modelLimits.exec(trimmed) ?? []
    const pairs = given
      ?.trim()
      .split(/\s+/)
      .map((pair) => pair.split('='))
    const found = pairs && new Map(pairs.map(([name, number]) => [name!, Number(number)]))
    if (pattern === undefined || !found || found.size < pairs.length || read.has(pattern))
      throw new UsageError(
        `--model-limits is ${JSON.stringify(text)}: it must be like "gpt-* rpm=60 tpm=10000, o3 rps=1", each limit and pattern once; "gpt-* none" takes out those of a pattern, and none those of all`
      )
    read.set(pattern, found.has('none') ? null : Object.fromEntries(found))
  }
  return Object.fromEntries(read)
}

function optional<T>(text: string | undefined, read: (text: string) => T): T | null | undefined {
  return text === undefined ? undefined : text === 'none' ? null : read(text)
}

function optionalList<T>(
  values: readonly string[] | undefined,
  read: (values: readonly string[]) => T
): T | null | undefined {
  return values?.join() === 'none' ? null : values && read(values)
}

function readNumber(option: string, text: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new UsageError(`--${option} is ${JSON.stringify(text)}: it must be a whole number, or none`)
  return Number(text)
}

/**
 * Budgets as the list of `--budget` has them.
 * @throws UsageError when one of them has another form
 */
export function readBudgets(texts: readonly string[]): { usd: string; per: string; alerts?: number[] }[] {
  return texts.map((one) => {
    const [, usd, per, alerts] = /^\s*([^\s/]+)\/([^\s/]+)(?:\s+at((?:\s+\d{1,3}%)+))?\s*$/.exec(one) ?? []
    if (usd === undefined || per === undefined)
      throw new UsageError(
        `--budget is ${JSON.stringify(one)}: it must be like 5/day, 100/month, 100/30d, 1000/total or "100/month at 50% 80%", several with commas between, or none`
      )
    return { usd, per, ...(alerts !== undefined && { alerts: alerts.match(/\d+/g)!.map(Number) }) }
  })
}

function readTags(pairs: readonly string[]): Record<string, string | null> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, name, value] = /^([^=]+)=(.*)$/.exec(pair) ?? []
      if (name === undefined)
        throw new UsageError(`--tags is ${JSON.stringify(pair)}: it must be like team=search,env=prod`)
      return [name, value === '' ? null : value!]
    })
  )
}

/** Reads the option `--enabled`. */
export function readSwitch(text: string): boolean {
  if (text === 'yes' || text === 'no') return text === 'yes'
  throw new UsageError(`--enabled is ${JSON.stringify(text)}: it must be yes or no`)
}
