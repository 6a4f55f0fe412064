// Warns about names and globs of models that match no model, which are most likely mistakes.
import { compileGlobs } from '../../core/catalogue/globs.ts'
import { isMap } from '../../core/options/schema-check.ts'
import { suggestion } from '../../core/options/suggest.ts'
import type { Path, Report } from '../report.ts'

/**
 * Checks the models of tenants, members and keys and of limits, those of channels too, even when other parts of them
 * are faulty.
 */
export function checkReach(
  { channels, tenants, keys }: { channels: unknown; tenants: unknown; keys: unknown },
  models: readonly string[],
  report: Report
): void {
  const warn = (glob: string, at: Path): void => {
    if (glob === '*' || models.some(compileGlobs([glob]))) return
    report.warn(
      at,
      `no model is meant by ${report.show(at, glob)}${glob.includes('*') ? '' : suggestion(glob, models)}`
    )
  }
  const check = (entry: unknown, path: Path): void => {
    const globs = isMap(entry) ? entry['models'] : undefined
    if (Array.isArray(globs))
      for (const [index, glob] of globs.entries()) if (typeof glob === 'string') warn(glob, [...path, 'models', index])
    const limits = isMap(entry) ? entry['limits'] : undefined
    for (const [glob] of entriesOf(limits, 'models')) warn(glob, [...path, 'limits', 'models', glob])
  }
  for (const [channel, entry] of entriesOf(channels)) {
    const limits = isMap(entry) ? entry['limits'] : undefined
    for (const [glob] of entriesOf(limits, 'models')) warn(glob, ['channels', channel, 'limits', 'models', glob])
  }
  for (const [tenant, entry] of entriesOf(tenants)) {
    check(entry, ['tenants', tenant])
    for (const [project, below] of entriesOf(entry, 'projects')) {
      check(below, ['tenants', tenant, 'projects', project])
      for (const [member, one] of entriesOf(below, 'members'))
        check(one, ['tenants', tenant, 'projects', project, 'members', member])
    }
  }
  if (Array.isArray(keys)) for (const [index, key] of keys.entries()) check(key, ['keys', index])
}

function entriesOf(value: unknown, name?: string): [string, unknown][] {
  const map = name === undefined || !isMap(value) ? value : value[name]
  return isMap(map) ? Object.entries(map) : []
}
