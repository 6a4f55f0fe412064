// Warns about names and globs of models that match no model, which are most likely mistakes.
import { compileGlobs } from '../core/catalogue/globs.ts'
import { isMap } from '../core/options/schema-check.ts'
import { suggestion } from '../core/options/suggest.ts'
import type { Path, Report } from './report.ts'

/** Checks the lists `models` of tenants, members and keys, even when other parts of them are faulty. */
export function checkReach(
  { tenants, keys }: { tenants: unknown; keys: unknown },
  models: readonly string[],
  report: Report
): void {
  const check = (entry: unknown, path: Path): void => {
    const globs = isMap(entry) ? entry['models'] : undefined
    if (!Array.isArray(globs)) return
    for (const [index, glob] of globs.entries()) {
      if (typeof glob !== 'string' || glob === '*' || models.some(compileGlobs([glob]))) continue
      const at = [...path, 'models', index]
      const near = glob.includes('*') ? '' : suggestion(glob, models)
      report.warn(at, `no model is meant by ${report.show(at, glob)}${near}`)
    }
  }
  for (const [tenant, entry] of entriesOf(tenants)) {
    check(entry, ['tenants', tenant])
    for (const [project, below] of entriesOf(entry, 'projects')) {
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
