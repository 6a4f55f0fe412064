// The sections `tenants` and `keys` of gateway.yaml: their shapes, and how they become the tenants and keys of the
// core.
import { createHash } from 'node:crypto'
import { endpointNames } from '../../core/catalogue/endpoints.ts'
import { isMap } from '../../core/options/schema-check.ts'
import { suggestion } from '../../core/options/suggest.ts'
import { names } from '../names.ts'
import type { Budget, Rights } from '../../core/catalogue/caller.ts'
import type { OptionSchema, OptionValue, OptionValues } from '../../core/options/schema.ts'
import type { ConfigKey, ConfigTenant } from '../../core/catalogue/settings.ts'
import type { Path, Report } from '../report.ts'

const globs = {
  type: 'array',
  default: ['*'],
  items: { type: 'string', minLength: 1, description: 'A name; * stands for anything.' }
} as const satisfies Partial<OptionSchema>
const atMost = { type: 'integer', minimum: 1, maximum: 1_000_000_000 } as const satisfies Partial<OptionSchema>

const budgetShape = {
  type: 'object',
  orList: true,
  description:
    'How much may be spent in a window, or a list of several of them; without one there is no bound at this level.',
  required: ['usd', 'per'],
  examples: [
    { usd: 100, per: 'month' },
    [
      { usd: 5, per: 'day' },
      { usd: 100, per: '30d' }
    ]
  ],
  properties: {
    usd: { type: 'string', format: 'usd', description: 'US dollars.' },
    per: {
      type: 'string',
      pattern: '^(day|week|month|total|([1-9]|[1-9][0-9]|[12][0-9]{2}|3[0-5][0-9]|36[0-6])d)$',
      patternErrorMessage: 'one of day, week, month, total, or the newest days, from 1d to 366d',
      description:
        'Day, week (from Monday on) or month of the calendar in UTC; `30d` for the newest 30 times 24 hours, which come free by the hour; or in total.'
    },
    alerts: {
      type: 'array',
      items: { type: 'integer', minimum: 1, maximum: 100, description: 'Percent of the budget.' },
      examples: [[50, 80, 100]],
      description:
        'Percent of the budget: when so much was charged, it is said once per window, in the log and to `alerts.url`.'
    }
  }
} as const satisfies OptionSchema

/** The most tags of one level. */
export const mostTags = 16
/** The most patterns of models with limits of their own at one level: each request looks at all that match. */
export const mostPatterns = 100

const tagsShape = {
  type: 'object',
  description: `Kept with every charge, for spend by tag; at most ${mostTags}. A level adds to those of the level above, and overrides them.`,
  examples: [{ team: 'search', env: 'prod' }],
  propertyNames: names,
  additionalProperties: {
    type: 'string',
    pattern: '^[^\\p{C}\\p{Zl}\\p{Zp}]{1,64}$',
    patternErrorMessage: '1 to 64 printable characters',
    description: 'The value.'
  }
} as const satisfies OptionSchema

/** Limits of requests and tokens; at every level the same words. */
export const rates = {
  rps: { ...atMost, description: 'Requests per second.' },
  rpm: { ...atMost, description: 'Requests per minute.' },
  tpm: { ...atMost, description: 'Tokens per minute, input and output together.' },
  concurrency: { ...atMost, description: 'Requests at one time.' }
} as const satisfies Readonly<Record<string, OptionSchema>>

/** The names of limits for models. */
export const modelPatterns = {
  pattern: '^[^\\s\\p{C}]{1,256}$',
  patternErrorMessage: 'a model or a pattern such as gpt-*: 1 to 256 characters without spaces'
}

const limitsShape = {
  type: 'object',
  description: 'Upper bounds of everything at this level together; one that is left out does not limit.',
  default: {},
  examples: [{ rpm: 600, models: { 'gpt-*': { tpm: 10_000 } } }],
  properties: {
    ...rates,
    models: {
      type: 'object',
      description: `Limits for models, by name or pattern, at most ${mostPatterns}: every pattern that matches limits a request, and counts by itself.`,
      propertyNames: modelPatterns,
      additionalProperties: { type: 'object', description: 'The limits of the models that match.', properties: rates }
    }
  }
} as const satisfies OptionSchema

/** What every level (tenant, project, member and key) may use and spend. All levels of a request have to allow it. */
export const rightsShape = {
  enabled: { type: 'boolean', default: true, description: 'false refuses all requests at this level and below it.' },
  models: { ...globs, description: 'Models that may be used; every level has to allow them.' },
  endpoints: { ...globs, description: 'Endpoints that may be called: chat, models, …; every level has to allow them.' },
  limits: limitsShape,
  budget: budgetShape,
  expires: { type: 'string', format: 'date', description: 'Refused from then on.' },
  tags: tagsShape
} as const satisfies Readonly<Record<string, OptionSchema>>

/** What a tenant has beside its rights and its projects. */
export const tenantSettings = {
  foreign_references: {
    type: 'string',
    enum: ['refuse', 'pass'],
    description:
      'What becomes of requests that refer to a file, container, vector store, prompt or cached content at an upstream, or to an item of a response, which was not made through the gateway by the same project: refused as not found, or passed on. Default: refused where the account of the upstream serves several tenants.'
  }
} as const satisfies Readonly<Record<string, OptionSchema>>

export const tenantsShape = {
  type: 'object',
  description: 'Customers by name; nothing is shared between them. More can be made at run time.',
  default: {},
  propertyNames: names,
  additionalProperties: {
    type: 'object',
    description: 'One tenant.',
    properties: {
      ...rightsShape,
      ...tenantSettings,
      projects: {
        type: 'object',
        description: 'Projects by name.',
        default: {},
        propertyNames: names,
        additionalProperties: {
          type: 'object',
          description: 'One project.',
          properties: {
            ...rightsShape,
            members: {
              type: 'object',
              description: 'Members by name.',
              default: {},
              propertyNames: names,
              additionalProperties: { type: 'object', description: 'One member.', properties: rightsShape }
            }
          }
        }
      }
    }
  }
} as const satisfies OptionSchema

export const keysShape = {
  type: 'array',
  description: 'API keys; more can be made at run time.',
  default: [],
  items: {
    type: 'object',
    description: 'One key.',
    required: ['name', 'tenant'],
    properties: {
      name: {
        type: 'string',
        ...names,
        description: 'Unique; shown wherever the key is meant, instead of its secret.'
      },
      key: {
        type: 'string',
        secret: true,
        pattern: '^sk-[\\x21-\\x7e]{1,509}$',
        patternErrorMessage: 'a secret that begins with sk-, without spaces',
        description: 'The secret; begins with sk-.'
      },
      key_sha256: {
        type: 'string',
        secret: true,
        pattern: '^[0-9a-fA-F]{64}$',
        patternErrorMessage: '64 hexadecimal digits',
        description: 'Instead of key: the SHA-256 of the secret, hexadecimal.'
      },
      tenant: { type: 'string', description: 'The tenant it belongs to.' },
      project: { type: 'string', description: 'The project its use counts for.' },
      member: { type: 'string', description: 'The member of the project who uses it.' },
      ...rightsShape
    }
  }
} as const satisfies OptionSchema

type TenantEntry = OptionValue<typeof tenantsShape.additionalProperties>
type KeyEntry = OptionValue<typeof keysShape.items>
/** Rights as the schema understands them. */
export type RightsEntry = OptionValues<typeof rightsShape>
type Tenants = ReadonlyMap<string, ConfigTenant | undefined>

/** Reads the tenants. A faulty one becomes undefined, so that its name is still known. */
export function readTenants(
  entries: Readonly<Record<string, TenantEntry>>,
  report: Report
): Map<string, ConfigTenant | undefined> {
  const read = (name: string, entry: TenantEntry): ConfigTenant | undefined =>
    checkTenant(name, entry, report) ? readTenant(name, entry) : undefined
  return new Map(Object.entries(entries).map(([name, entry]) => [name, read(name, entry)]))
}

/** Checks what schemas cannot say, at all levels of a tenant. Returns whether the tenant is sound. */
function checkTenant(name: string, entry: TenantEntry, report: Report): boolean {
  const at = ['tenants', name]
  if (!report.sound(...at)) return false
  checkRights(entry, at, report)
  for (const [project, { members, ...rights }] of Object.entries(entry.projects)) {
    checkRights(rights, [...at, 'projects', project], report)
    for (const [member, rightsOfMember] of Object.entries(members))
      checkRights(rightsOfMember, [...at, 'projects', project, 'members', member], report)
  }
  return report.sound(...at)
}

function readTenant(name: string, entry: TenantEntry): ConfigTenant {
  const projects = Object.entries(entry.projects).map(([projectName, project]) => {
    const members = Object.entries(project.members).map(
      ([memberName, member]) => [memberName, readRights(member)] as const
    )
    return [projectName, { ...readRights(project), members: new Map(members) }] as const
  })
  return { name, ...readRights(entry), foreignReferences: entry.foreign_references, projects: new Map(projects) }
}

/** The rights that a checked entry describes. */
export function readRights(entry: RightsEntry): Rights {
  const { enabled, models, endpoints, limits, budget, expires, tags } = entry
  return { enabled, models, endpoints, limits, budgets: budgetsOf(budget), expires, tags }
}

function checkRights(entry: RightsEntry, path: Path, report: Report): void {
  if (report.sound(...path, 'endpoints')) checkEndpoints(entry, path, report)
  const fault = report.sound(...path, 'budget') ? budgetFault(entry.budget) : undefined
  if (fault !== undefined) report.value([...path, 'budget'], fault)
  if (Object.keys(entry.tags ?? {}).length > mostTags) report.value([...path, 'tags'], `has more than ${mostTags} tags`)
  if (report.sound(...path, 'limits') && Object.keys(entry.limits.models ?? {}).length > mostPatterns)
    report.value([...path, 'limits', 'models'], `has more than ${mostPatterns} patterns`)
}

/** The budgets of an entry: one, a list, or none. */
function budgetsOf(entry: RightsEntry['budget']): readonly Budget[] {
  if (entry === undefined) return []
  return [entry].flat().map(({ usd, per, alerts }) => ({
    limit: usd,
    per: per as Budget['per'],
    ...(alerts && { alerts: [...new Set(alerts)].sort((a, b) => a - b) })
  }))
}

/** What is wrong with a list of budgets: two for one kind of window. Undefined when nothing is. */
export function budgetFault(entry: RightsEntry['budget']): string | undefined {
  const kinds = budgetsOf(entry).map(({ per }) => per)
  const twice = kinds.find((per, index) => kinds.indexOf(per) < index)
  return twice === undefined ? undefined : `has two budgets per ${twice}: keep one`
}

/**
 * Reads the keys, and leaves faulty ones out. When `tenants` is undefined they could not be read, and references to
 * them are not checked.
 */
export function readKeys(entries: readonly KeyEntry[], tenants: Tenants | undefined, report: Report): ConfigKey[] {
  const unique = new Unique(report)
  const keys: ConfigKey[] = []
  for (const [index, entry] of entries.entries()) {
    const path = ['keys', index]
    // A fault in one field must not hide those of other fields.
    const sound = (...fields: readonly string[]): boolean => fields.every((field) => report.sound(...path, field))
    if (!isMap(entry)) continue
    if (entry.name !== undefined && sound('name')) unique.name(entry, path)
    if (sound('tenant', 'project', 'member')) checkOwner(entry, path, tenants, report)
    if (sound('endpoints', 'tags', 'limits')) checkRights(entry, path, report)
    const sha256 = sound('key', 'key_sha256') ? digestOf(entry, path, report) : undefined
    if (!sha256) continue
    unique.secret(entry, sha256, path)
    if (report.sound(...path)) keys.push(keyOf(entry, sha256, report.place(path)))
  }
  return keys
}

function keyOf(entry: KeyEntry, sha256: Buffer, place: string): ConfigKey {
  const { name, tenant, project, member } = entry
  return { name, sha256, tenant, project, member, ...readRights(entry), place }
}

/** Finds keys that have the name or the secret of an earlier key. */
class Unique {
  readonly #report: Report
  readonly #names = new Map<string, string>()
  readonly #secrets = new Map<string, string>()

  constructor(report: Report) {
    this.#report = report
  }

  name({ name }: KeyEntry, path: Path): void {
    const first = this.#names.get(name)
    if (first === undefined) this.#names.set(name, this.#report.place(path))
    else this.#report.value([...path, 'name'], `the key at ${first} has this name already`)
  }

  secret({ name, key }: KeyEntry, sha256: Buffer, path: Path): void {
    const first = this.#secrets.get(sha256.toString('hex'))
    if (first === undefined) this.#secrets.set(sha256.toString('hex'), name)
    else this.#report.key([...path, key === undefined ? 'key_sha256' : 'key'], `the key "${first}" has the same secret`)
  }
}

function digestOf({ key, key_sha256: hex }: KeyEntry, path: Path, report: Report): Buffer | undefined {
  const both = key !== undefined && hex !== undefined
  if (both) report.key([...path, 'key_sha256'], 'there is a "key" already: keep one of the two')
  if (key !== undefined) return createHash('sha256').update(key).digest()
  if (hex !== undefined) return Buffer.from(hex, 'hex')
  report.key(path, 'the secret is missing: give "key" or "key_sha256"')
  return undefined
}

function checkOwner(
  { tenant, project, member }: KeyEntry,
  path: Path,
  tenants: Tenants | undefined,
  report: Report
): void {
  const unknown = (level: string, name: string, known: Iterable<string>): void => {
    report.value([...path, level], `no ${level} ${report.show([...path, level], name)}${suggestion(name, [...known])}`)
  }
  if (member !== undefined && project === undefined) report.key(path, '"project" is missing: a member belongs to one')
  if (!tenants || tenant === undefined) return
  if (!tenants.has(tenant)) return unknown('tenant', tenant, tenants.keys())
  const projects = tenants.get(tenant)?.projects
  if (!projects || project === undefined) return
  const members = projects.get(project)?.members
  if (!members) return unknown('project', project, projects.keys())
  if (member !== undefined && !members.has(member)) unknown('member', member, members.keys())
}

function checkEndpoints(entry: RightsEntry, path: Path, report: Report): void {
  for (const [index, glob] of entry.endpoints.entries()) {
    if (glob.includes('*') || endpointNames.includes(glob)) continue
    const at = [...path, 'endpoints', index]
    report.value(at, `no endpoint ${report.show(at, glob)}${suggestion(glob, endpointNames)}`)
  }
}
