// The price list: public prices (price-list.json), for models that say `price: list`.
import { nearest } from '../../core/options/suggest.ts'
import list from './price-list.json' with { type: 'json' }

/** The names of a model: the one that clients use, and those that its upstreams use. */
export interface Names {
  name: string
  /** Undefined when some of them could not be read. */
  upstream: readonly string[] | undefined
}

/** The day of the list, in Unix milliseconds. */
export const listDate = Date.parse(/\d{4}-\d\d-\d\d/.exec(list.source)![0])

const prices = indexed(list.prices)
const leftOut = indexed(list.left_out)

/**
 * Finds the price of a model in the list, in the form of `price:` in the file: by its public name, or else by its
 * upstream names. Otherwise returns a text that says what is wrong; or undefined when that is unknown, because an
 * upstream name could not be read.
 */
export function findListed({ name, upstream }: Names): object | string | undefined {
  const own = lookUp(prices, name)
  if (own) return own.price
  const others = (upstream ?? []).filter((other) => lookUp(prices, other))
  const found = new Set(others.map((other) => lookUp(prices, other)!.price))
  if (found.size > 1) return `the price list has different prices for ${others.join(' and ')}: give the price here`
  const [price] = found
  return price ?? (upstream && missing([...new Set([name, ...upstream])]))
}

function indexed<T extends { models: readonly string[] }>(entries: readonly T[]): ReadonlyMap<string, T> {
  return new Map(entries.flatMap((entry) => entry.models.map((name) => [name, entry])))
}

/** Looks up a name. The list may have a name with a placeholder for the date of a snapshot. */
function lookUp<T>(entries: ReadonlyMap<string, T>, name: string): T | undefined {
  return (
    entries.get(name) ?? entries.get(name.replace(/-\d{8}$/, '-YYYYMMDD').replace(/-\d{4}-\d\d-\d\d$/, '-YYYY-MM-DD'))
  )
}

function missing(names: readonly string[]): string {
  const words = `the price list has no ${names.map((name) => JSON.stringify(name)).join(' and no ')}`
  for (const name of names) {
    const left = lookUp(leftOut, name)
    if (left) return `${words}, as ${left.because}: give the price here`
    const near = nearest(name, prices.keys())
    if (near !== undefined) return `${words}, did you mean "${near}"?`
  }
  return `${words}: give the price here`
}
