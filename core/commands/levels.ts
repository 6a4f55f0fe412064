// The commands `sluice tenants`, `sluice projects` and `sluice members`: create, list, change and close them.
import type { ShownLevel } from '../admin/tenancy/level-desk.ts'
import { levelKinds } from '../tenancy/stored.ts'
import type { LevelKind } from '../tenancy/stored.ts'
import { accessOptions, allOf, places, withAdmin } from './asking/admin-access.ts'
import { defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import type { Command } from './command/command.ts'
import { rightsOf, rightsOptions } from './command/rights-options.ts'
import { renderTable } from './output/table.ts'

const operands = { tenant: 'TENANT', project: 'TENANT/PROJECT', member: 'TENANT/PROJECT/MEMBER' } as const

const tenantOptions = {
  'foreign-references': {
    value: 'refuse|pass',
    text: 'what becomes of references to things not made through the gateway'
  }
} as const

/** All commands of tenants, projects and members. */
export const levelCommands: readonly Command[] = levelKinds.flatMap((kind) => [
  defineCommand({
    name: `${kind}s create`,
    summary: `makes a ${kind}`,
    operands: [operands[kind]],
    options: { ...rightsOptions, ...(kind === 'tenant' ? tenantOptions : {}), ...accessOptions, ...jsonOption },
    notes: places,
    run: async (options, [path]) => {
      const request = { ...namesOf(kind, path!), ...rightsOf(options), ...foreignOf(options) }
      return withAdmin(options, async (admin) => {
        const level = await admin.call<ShownLevel>('POST', `/admin/v1/${kind}s`, request)
        return told(`${path} was made in ${admin.where}.`, level, options.json)
      })
    }
  }),
  defineCommand({
    name: `${kind}s list`,
    summary: `lists all ${kind}s, of the file and of the store`,
    options: { ...accessOptions, ...jsonOption },
    notes: places,
    run: async (options) =>
      withAdmin(options, async (admin) => {
        const levels = await allOf<ShownLevel>(admin, `/admin/v1/${kind}s`)
        process.stdout.write(`${options.json ? JSON.stringify({ data: levels }) : table(levels)}\n`)
        return exits.ok
      })
  }),
  defineCommand({
    name: `${kind}s change`,
    summary: `changes what a ${kind} of the store may use and spend, from the next request on`,
    operands: [operands[kind]],
    options: { ...rightsOptions, ...(kind === 'tenant' ? tenantOptions : {}), ...accessOptions, ...jsonOption },
    notes: `What is not given stays as it is; the word none takes something out: --budget none.${places}`,
    run: async (options, [path]) => {
      const patch = { ...rightsOf(options), ...foreignOf(options) }
      if (Object.keys(patch).length === 0) throw new UsageError('there is nothing to change: give an option')
      return withAdmin(options, async (admin) => {
        const level = await admin.call<ShownLevel>('PATCH', addressOf(kind, path!), patch)
        return told(`${path} was changed in ${admin.where}.`, level, options.json)
      })
    }
  }),
  defineCommand({
    name: `${kind}s close`,
    summary: `closes a ${kind} of the store for good, from the next request on`,
    operands: [operands[kind]],
    options: { ...accessOptions, ...jsonOption },
    notes: `All requests of its keys are refused, and its name stays taken. To refuse them for a while: ${kind}s change --enabled no.${places}`,
    run: async (options, [path]) =>
      withAdmin(options, async (admin) => {
        const level = await admin.call<ShownLevel>('DELETE', addressOf(kind, path!))
        return told(`${path} is closed in ${admin.where}.`, level, options.json)
      })
  })
])

function foreignOf(options: Readonly<Record<string, unknown>>): object {
  const given = options['foreign-references']
  return given === undefined ? {} : { foreign_references: given === 'none' ? null : given }
}

/** @throws UsageError when the path has too few or too many names */
function segmentsOf(kind: LevelKind, path: string): string[] {
  const segments = path.split('/')
  if (segments.length !== levelKinds.indexOf(kind) + 1 || segments.includes(''))
    throw new UsageError(`${JSON.stringify(path)} is no ${kind}: it must be like ${operands[kind]}`)
  return segments
}

function namesOf(kind: LevelKind, path: string): object {
  const segments = segmentsOf(kind, path)
  const [tenant, project] = segments
  const name = segments.at(-1)
  return kind === 'tenant' ? { name } : kind === 'project' ? { tenant, name } : { tenant, project, name }
}

function addressOf(kind: LevelKind, path: string): string {
  return `/admin/v1/${kind}s/${segmentsOf(kind, path).map(encodeURIComponent).join('/')}`
}

function told(text: string, level: ShownLevel, json: boolean): number {
  if (json) process.stdout.write(`${JSON.stringify(level)}\n`)
  process.stderr.write(`${text}\n`)
  return exits.ok
}

function table(levels: readonly ShownLevel[]): string {
  const rows = levels.map(({ scope, state, source, models, budget, expires, tags }) => [
    scope.slice(scope.indexOf(':') + 1),
    state,
    source,
    models.join(','),
    budget.map(({ usd, per }) => `${usd}/${per}`).join(',') || '-',
    expires?.slice(0, 10) ?? '-',
    Object.entries(tags)
      .map(([name, value]) => `${name}=${value}`)
      .join(',') || '-'
  ])
  return renderTable([['NAME', 'STATE', 'SOURCE', 'MODELS', 'BUDGET', 'EXPIRES', 'TAGS'], ...rows])
}
