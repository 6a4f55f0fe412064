// Warns of what works as it is written and is most likely a mistake: secrets in clear, prices that nobody has looked at
// for a year, models without a key and keys without a model.
import { compileGlobs } from '../core/catalogue/globs.ts'
import type { Config, ConfigKey } from '../core/catalogue/settings.ts'
import type { Rights } from '../core/catalogue/caller.ts'
import { isMap } from '../core/options/schema-check.ts'
import type { OptionSchemas } from '../core/options/schema.ts'
import { listDate } from './prices/price-list.ts'
import type { Path, Report } from './report.ts'
import type { Source } from './files/source.ts'

/** Names of headers and parameters whose values let somebody in; the values of others are no secrets. */
const lettingIn = /auth|key|token|secret|passw|cookie|signature/i

/** Warns of secrets that stand in the file as they are. `data` is the file's, and `schemas` tell what is secret. */
export function warnOfClear(
  data: Readonly<Record<string, unknown>>,
  schemas: OptionSchemas,
  source: Source,
  report: Report
): void {
  const remedy = 'a secret in clear, which whoever reads the file has: put it into the environment, and ${NAME} here'
  for (const section of Object.keys(data))
    for (const path of source.secrets([section], schemas[section], ({ name, group }) => !group || lettingIn.test(name)))
      if (path.at(-1) !== 'key_sha256') report.warn(path, remedy)
}

/** A year, in milliseconds. */
const year = 365.25 * 24 * 3_600_000

/** Warns of prices that are in force for more than a year, `now` being in Unix milliseconds. */
export function warnOfOldPrices(
  { models, channels }: { models: Readonly<Record<string, unknown>>; channels: Readonly<Record<string, unknown>> },
  now: number,
  report: Report
): void {
  const listIsOld = now - listDate > year
  const look = (price: unknown, path: Path): void => {
    if (price === 'list' && listIsOld)
      report.warn(path, `the price list is of ${day(listDate)}: update sluice, or give the price here`)
    const periods = [price].flat().map((period) => (isMap(period) ? (period['from'] as number | undefined) : undefined))
    const index = periods.findLastIndex((from) => from === undefined || from <= now)
    const from = periods[index]
    if (from === undefined || now - from <= year) return
    const place = [...path, ...(Array.isArray(price) ? [index] : []), 'from']
    report.warn(
      place,
      `this price is in force since ${day(from)}: compare it with what the upstream asks today, and give it a new "from"`
    )
  }
  for (const [name, model] of Object.entries(models)) if (isMap(model)) look(model['price'], ['models', name, 'price'])
  for (const [name, channel] of Object.entries(channels)) {
    const cost = isMap(channel) ? channel['cost'] : undefined
    const own = isMap(cost) && isMap(cost['models']) ? cost['models'] : {}
    for (const [model, price] of Object.entries(own)) look(price, ['channels', name, 'cost', 'models', model])
  }
}

function day(time: number): string {
  return new Date(time).toISOString().slice(0, 10)
}

/**
 * Warns of models that no key of the file may use, and of keys that may use no model. Keys of the store are not known
 * here, so a file without keys says nothing.
 */
export function warnOfReach(
  { models, tenants, keys }: Pick<Config, 'models' | 'tenants' | 'keys'>,
  report: Report
): void {
  const names = [...models.keys()]
  const reached = new Map<string, readonly string[]>()
  /** The models that all levels allow. Most keys have the same globs, so the answer is kept. */
  const allowedBy = (levels: readonly Rights[]): readonly string[] => {
    const id = JSON.stringify(levels.map(({ models: globs }) => globs))
    let found = reached.get(id)
    if (!found) {
      const matches = levels.map(({ models: globs }) => compileGlobs(globs))
      reached.set(id, (found = names.filter((name) => matches.every((match) => match(name)))))
    }
    return found
  }
  const used = new Set<string>()
  for (const [index, key] of keys.entries()) {
    const levels = levelsOf(key, tenants)
    const allowed = allowedBy(levels)
    if (allowed.length === 0)
      report.warn(
        ['keys', index],
        'may use no model: let its "models" and those of its tenant, project and member have one in common'
      )
    if (levels.every(({ enabled }) => enabled)) for (const name of allowed) used.add(name)
  }
  if (keys.length === 0) return
  for (const name of names)
    if (!used.has(name))
      report.warn(
        ['models', name],
        'no key of the configuration may use it: allow it to a tenant and a key, or take it out'
      )
}

function levelsOf(key: ConfigKey, tenants: Config['tenants']): Rights[] {
  const tenant = tenants.get(key.tenant)
  const project = key.project === undefined ? undefined : tenant?.projects.get(key.project)
  const member = key.member === undefined ? undefined : project?.members.get(key.member)
  return [tenant, project, member, key].filter((level) => level !== undefined)
}
