// The route of spend: what was charged, what it cost and what is left of it, by any combination of groups.
import { formatDollars } from '../../money/money.ts'
import { suggestion } from '../../options/suggest.ts'
import { convertUnit } from '../../options/units.ts'
import { spendFilters, spendGroups } from '../../store/spend.ts'
import type { SpendGroup, SpendQuery, SpendSum } from '../../store/spend.ts'
import type { AdminParts, Answer, Call } from '../api/contract.ts'
import { invalidField, readLimit, shown } from '../api/query.ts'

/** The parameters of a query of spend, which are options of `sluice spend` too. */
export const spendParameters = ['by', ...spendFilters, 'tag', 'since', 'until'] as const

/** What actors of one tenant do not see of a sum: what upstreams charge the operator. */
export const hiddenOfSpend = ['cost', 'margin', 'uncosted', 'failed'].flatMap((name) => [`${name}_usd`, `${name}_nano`])

/** What a caller does about a parameter that cannot be read. `message` goes on where its name ends. */
export type Refuse = (name: (typeof spendParameters)[number], message: string) => never

const defaultLimit = 1000
const day = 86_400_000
/** The names that tags may have, see config/names.ts. */
const tagName = /^[\p{L}\p{N}][\p{L}\p{N}._@+-]{0,127}$/u

/** Lists the sums of a query, sorted by their groups. */
export async function listSpend({ query }: Call, { store }: AdminParts): Promise<Answer> {
  const asked = readSpendQuery(query)
  const after = readCursor(query.get('cursor'), asked.by)
  const { sums, next } = await store.spend({ ...asked, limit: readLimit(query, defaultLimit), after })
  return {
    json: {
      data: sums.map((sum) => showSum(asked.by, sum)),
      next: next ? Buffer.from(JSON.stringify(next)).toString('base64url') : null
    }
  }
}

/** Reads the query of a request for spend. */
export function readSpendQuery(query: Call['query']): ReturnType<typeof readSpend> {
  return readSpend(
    (name) => query.get(name),
    (name, message) => {
      throw invalidField(name, `${name} ${message}`)
    }
  )
}

/** Reads a query of spend. */
export function readSpend(
  given: (name: (typeof spendParameters)[number]) => string | undefined,
  refuse: Refuse
): Pick<SpendQuery, 'by' | 'equal' | 'tag' | 'since' | 'until'> {
  const equal = Object.fromEntries(
    spendFilters.flatMap((name) => {
      const value = given(name)
      return value === undefined ? [] : [[name, value]]
    })
  )
  const [since, until] = [readDay(given('since'), 'since', refuse), readDay(given('until'), 'until', refuse)]
  return { by: readGroups(given('by'), refuse), equal, tag: readTag(given('tag'), refuse), since, until }
}

function readGroups(text: string | undefined, refuse: Refuse): SpendGroup[] {
  if (text === undefined) return []
  const names = text.split(',')
  for (const [index, name] of names.entries()) {
    const known = name.startsWith('tag:')
      ? tagName.test(name.slice(4))
      : (spendGroups as readonly string[]).includes(name)
    if (!known)
      refuse(
        'by',
        `has ${shown(name)}${suggestion(name, spendGroups)}: it is a list of ${spendGroups.join(', ')}, and tag:NAME for one tag`
      )
    if (names.indexOf(name) !== index) refuse('by', `has ${shown(name)} twice: keep one`)
  }
  return names as SpendGroup[]
}

function readTag(text: string | undefined, refuse: Refuse): SpendQuery['tag'] {
  if (text === undefined) return undefined
  const colon = text.indexOf(':')
  const [name, value] = [text.slice(0, Math.max(colon, 0)), text.slice(colon + 1)]
  if (!tagName.test(name) || value === '')
    refuse('tag', `is ${shown(text)}: it must be the name of a tag and its value, like team:search`)
  return { name, value }
}

/** Reads a day as the number of days since 1970. Spend is added up by whole days. */
function readDay(text: string | undefined, name: 'since' | 'until', refuse: Refuse): number | undefined {
  if (text === undefined) return undefined
  const time = convertUnit('date', text)
  if (typeof time !== 'number' || time % day !== 0)
    return refuse(name, `is ${shown(text)}: it must be a day in UTC like 2026-11-21, by which spend is added up`)
  return time / day
}

const forms: Readonly<Record<string, RegExp>> = { day: /^\d{4}-\d\d-\d\d$/, month: /^\d{4}-\d\d$/ }

function readCursor(cursor: string | undefined, by: readonly SpendGroup[]): readonly string[] | undefined {
  if (cursor === undefined) return undefined
  try {
    const group: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    const fits = (value: unknown, index: number): boolean =>
      typeof value === 'string' && (forms[by[index]!]?.test(value) ?? true)
    if (Array.isArray(group) && group.length === by.length && group.length > 0 && group.every(fits)) return group
  } catch {
    // It is refused below.
  }
  throw invalidField('cursor', `cursor is ${shown(cursor)}: it must be the next of an earlier page of the same query`)
}

/** What is left of a charge whose cost is known. */
function marginOf({ charge, uncosted, cost }: SpendSum): bigint | undefined {
  return cost === undefined ? undefined : charge - uncosted - cost
}

type Amount = 'charge' | 'cost' | 'margin' | 'uncosted' | 'failed'

/** A sum as it is shown, with its groups beside. Who sees one tenant alone is not shown what it costs. */
export type ShownSum = Readonly<Record<string, unknown>> & {
  readonly [name in `${Amount}_${'usd' | 'nano'}`]?: string | null
} & { readonly requests: number; readonly usage: SpendSum['usage'] }

/**
 * Shows a sum: its groups, null where there is none; amounts in dollars and nano-dollars, null where they are not
 * known; and units by class. The charge is the cost, the margin and what is uncosted together.
 */
export function showSum(by: readonly SpendGroup[], sum: SpendSum): ShownSum {
  const groups = by.map((name, index) => [name, groupValue(name, sum.group[index]!)] as const)
  const { requests, charge, cost, uncosted, failed, usage } = sum
  const amounts: Record<Amount, bigint | undefined> = { charge, cost, margin: marginOf(sum), uncosted, failed }
  return {
    ...Object.fromEntries(groups),
    requests,
    ...Object.fromEntries(
      Object.entries(amounts).flatMap(([name, nano]) => [
        [`${name}_usd`, nano === undefined ? null : formatDollars(nano)],
        [`${name}_nano`, nano === undefined ? null : String(nano)]
      ])
    ),
    usage
  }
}

function groupValue(name: SpendGroup, value: string): unknown {
  if (value === '') return null
  return name === 'tag' ? JSON.parse(value) : value
}
