// Says for operators why a key is not valid, and which level does not allow what its caller asked for.
import type { Caller, Rights } from '../catalogue/caller.ts'
import type { RuleReason } from '../errors.ts'
import type { Held, Key } from './held.ts'
import type { Matches } from '../catalogue/globs.ts'
import { scopeOf } from './levels.ts'
import type { Level, Levels } from './levels.ts'
import { idOf } from './stored.ts'

/** One level of a caller, or its key. */
interface Place {
  readonly scope: string
  readonly rights: Rights
  readonly stored: boolean
}

/** Makes the {@link Caller.whyNot} of a key. `line`: the levels above it. */
export function whyNotOf(
  key: Key,
  line: readonly Level[],
  compile: (globs: readonly string[]) => Matches
): Caller['whyNot'] {
  return (asked, name) => {
    const places = placesOf(key, line)
    if (asked === 'time') {
      const first = places.reduce((a, b) => ((b.rights.expires ?? Infinity) < (a.rights.expires ?? Infinity) ? b : a))
      const at = new Date(first.rights.expires!).toISOString()
      return {
        by: 'key',
        what: `${first.scope} expired at ${at}`,
        where: `${whereIs(first)}.expires`,
        remedy: 'set a later time'
      }
    }
    const member = asked === 'model' ? 'models' : 'endpoints'
    const level = places.find(({ rights }) => !compile(rights[member])(name))
    if (!level) return { by: asked, what: `${name} is allowed`, where: null, remedy: null }
    const listed = level.rights[member].join(', ')
    return {
      by: asked,
      what: `${level.scope} allows the ${member} ${listed === '' ? 'none' : listed}, and not ${name}`,
      where: `${whereIs(level)}.${member}`,
      remedy: `add ${name} to them`
    }
  }
}

/** Why a secret that a key has is not valid now. */
export function whyInvalid({ key: read, until }: Held, levels: Levels, now: number): RuleReason {
  const key = read()
  const { name, tenant, project, member } = key
  const own = whereIs(placeOf(key))
  const say = (what: string, where: string, remedy: string): RuleReason => ({ by: 'key', what, where, remedy })
  if (until !== undefined && until <= now) {
    const at = new Date(until).toISOString()
    return say(`this secret of the key ${name} was replaced, and is refused since ${at}`, own, 'use the new secret')
  }
  if (!key.enabled) return say(`the key ${name} is disabled`, `${own}.enabled`, 'enable it')
  const path = [tenant, project, member] as const
  const line = levels.lineOf(path)
  if (!line)
    return say(`the key ${name} is of ${idOf(path)}, which there is not`, own, `make ${idOf(path)}, or another key`)
  const off = line.find(({ rights }) => !rights.enabled)
  if (!off) return say(`the key ${name} is valid`, own, 'try again')
  const { scope, stored } = levelPlace(off)
  const where = whereIs({ scope, stored })
  const closed = off.stored?.closed
  return closed === undefined
    ? say(`${scope} is disabled`, `${where}.enabled`, 'enable it')
    : say(`${scope} was closed at ${new Date(closed).toISOString()}`, where, 'use a key of another')
}

function placesOf(key: Key, line: readonly Level[]): Place[] {
  return [...line.map(levelPlace), placeOf(key)]
}

function levelPlace({ path, rights, stored }: Level): Place {
  return { scope: scopeOf(path), rights, stored: stored !== undefined }
}

function placeOf(key: Key): Place {
  return { scope: `key:${key.name}`, rights: key, stored: key.stored === true }
}

/** Where the settings of a level stand: `tenants.acme` in gateway.yaml, or `tenant:acme in the store`. */
function whereIs({ scope, stored }: Pick<Place, 'scope' | 'stored'>): string {
  if (stored) return `${scope} in the store`
  const [kind, path] = scope.split(':', 2) as [string, string]
  if (kind === 'key') return `keys[${path}]`
  const [tenant, project, member] = path.split('/')
  return ['tenants', tenant, project && `projects.${project}`, member && `members.${member}`].filter(Boolean).join('.')
}
