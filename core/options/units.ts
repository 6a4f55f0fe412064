// Converts durations, sizes, money and dates of the configuration from text.
import { parseDollars } from '../money/money.ts'
import type { Unit } from './schema.ts'

const durations: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const sizes: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40
}
/** A billion dollars in nano-dollars: far above any budget, and within the 64 bits of a ledger column. */
const mostDollars = 1_000_000_000n * 1_000_000_000n

/**
 * How each unit is written: the pattern for editors, and a description for people. `number`: a plain number is allowed
 * too.
 */
export const notations: Readonly<Record<Unit, { pattern: string; words: string; number: boolean }>> = {
  duration: { pattern: '^\\d{1,12}(ms|s|m|h|d)$', words: 'a duration like 500ms, 30s, 5m, 2h or 1d', number: false },
  size: { pattern: '^\\d{1,15} ?([KMGT]i?B|B)?$', words: 'a size like 64KiB, 16MiB, 1GB or 1048576', number: true },
  usd: {
    pattern: '^\\d{1,12}(\\.\\d{1,15})?([eE][+-]?\\d{1,2})?$',
    number: true,
    words: 'an amount of US dollars like 20 or 0.05, at most a billion and exact to the nano-dollar'
  },
  date: {
    pattern: '^\\d{4}-\\d\\d-\\d\\d([Tt]\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,9})?([Zz]|[+-]\\d\\d:\\d\\d))?$',
    number: false,
    words: 'a date like 2027-01-01 or 2027-01-01T12:00:00Z'
  },
  path: { pattern: '^[^\\0]+$', words: 'the path of a file', number: false },
  decimal: {
    pattern: '^\\d{1,12}(\\.\\d{1,15})?([eE][+-]?\\d{1,2})?$',
    number: true,
    words: 'a price in US dollars like 1.25 or 0.0375'
  }
}

/**
 * Converts a text, or a number where the unit allows one. Undefined when it does not have the form of the unit or is
 * out of range.
 */
export function convertUnit(unit: Unit, written: string | number): number | bigint | string | undefined {
  const text = String(written)
  switch (unit) {
    case 'duration':
      return scaled(/^(\d{1,12})(ms|s|m|h|d)$/.exec(text), durations)
    case 'size':
      return scaled(/^(\d{1,15}) ?([KMGT]i?B|B)?$/.exec(text), sizes)
    case 'usd': {
      const nano = parseDollars(text)
      return nano !== undefined && nano <= mostDollars ? nano : undefined
    }
    case 'date':
      return parseDate(text)
    case 'path':
      return text
    case 'decimal':
      return parseDollars(text, 24) === undefined ? undefined : text
  }
}

function scaled(match: RegExpExecArray | null, factors: Readonly<Record<string, number>>): number | undefined {
  const value = match ? Number(match[1]) * factors[match[2] ?? '']! : undefined
  return Number.isSafeInteger(value) ? value : undefined
}

/** Midnight UTC of `YYYY-MM-DD`, or the instant of an RFC 3339 date-time. Undefined for days that do not exist. */
function parseDate(text: string): number | undefined {
  const match = /^(\d{4}-\d\d-\d\d)(?:t(\d\d:\d\d:\d\d(?:\.\d{1,9})?)(z|[+-]\d\d:\d\d))?$/i.exec(text)
  if (!match) return undefined
  const [, day = '', time = '00:00:00', zone = 'Z'] = match
  const midnight = Date.parse(`${day}T00:00:00Z`)
  // Date.parse would read the 30th of February as the 2nd of March.
  if (Number.isNaN(midnight) || new Date(midnight).toISOString().slice(0, 10) !== day) return undefined
  const instant = Date.parse(`${day}T${time.slice(0, 12)}${zone.toUpperCase()}`)
  return Number.isNaN(instant) ? undefined : instant
}
