// The keys `credentials` and `limits` of a channel in gateway.yaml: several credentials, and what the upstream allows
// to each of them and to all.
import { isMap } from '../../core/options/schema-check.ts'
import type { Channel } from '../../core/catalogue/catalogue.ts'
import type { LevelLimits } from '../../core/catalogue/caller.ts'
import type { LivingCredential } from '../../core/credentials/source.ts'
import { keyOf } from '../../core/credentials/source.ts'
import type { OptionSchema, OptionValue } from '../../core/options/schema.ts'
import { CredentialReader, credentialShape, kinds } from './credentials.ts'
import { names } from '../names.ts'
import type { Path, Report } from '../report.ts'
import { modelPatterns, mostPatterns, rates as allRates } from '../sections/tenants.ts'
import type { Environment } from '../files/variables.ts'

const { rpm, tpm, concurrency } = allRates
const rates = { rpm, tpm, concurrency } as const

/** The most credentials of one channel: each request looks at all of them. */
export const mostCredentials = 100

export const credentialsShape = {
  type: 'array',
  minItems: 1,
  examples: [['${OPENAI_KEY_A}', { key: '${OPENAI_KEY_B}', name: 'b', weight: 2, rpm: 500 }]],
  items: {
    type: 'object',
    orText: true,
    description: 'A key, or a map with `key` or one of the sources of `credential`, and what else is known of it.',
    properties: {
      key: { type: 'string', minLength: 1, secret: true, description: "The upstream's API key." },
      name: {
        type: 'string',
        ...names,
        description: 'What it is called where it may not be shown; its place in the list, from 1 on, unless said.'
      },
      weight: {
        type: 'integer',
        minimum: 0,
        maximum: 1_000_000,
        default: 1,
        description: 'Share of the requests, times what is left to it; 0 only when no other can be used.'
      },
      ...rates,
      ...credentialShape.properties
    }
  },
  description: `Several credentials in place of one, at most ${mostCredentials}: each request is sent with one of them, by weight and by what is left to it. One that is refused, or told to wait, rests alone.`
} as const satisfies OptionSchema

export const channelLimitsShape = {
  type: 'object',
  examples: [{ rpm: 500, concurrency: 50, models: { 'gpt-5': { tpm: 100_000 } } }],
  description:
    'What the upstream allows to this channel, all of its credentials together. When it is full, requests go to the next channel, or wait (`route.wait`).',
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

type Entry = OptionValue<typeof credentialsShape>[number]
type Limits = OptionValue<typeof channelLimitsShape>

/** One of several credentials, as it was read. */
export interface ReadCredential {
  readonly name: string
  /** Empty where `living` stands for it. */
  readonly credential: string
  readonly living: LivingCredential | undefined
  readonly weight: number
  readonly limits: LevelLimits | undefined
}

/** Reads the credentials of a channel that has a list of them; what is faulty is reported and left out. */
export function readCredentials(
  channel: string,
  entries: readonly Entry[],
  {
    family,
    header,
    dialect,
    env
  }: {
    family: Channel['protocol']
    header: string | undefined
    dialect: Channel['dialect']
    env: Environment
  },
  report: Report
): ReadCredential[] {
  const path = ['channels', channel, 'credentials']
  if (entries.length > mostCredentials) report.value(path, `has more than ${mostCredentials} credentials`)
  const read = entries.flatMap((entry, index): ReadCredential[] => {
    const at = [...path, index]
    if (!report.sound(...at)) return []
    if (typeof entry === 'string') {
      if (entry === '') report.value(at, 'is empty: give the key, or take this entry out')
      return [{ name: String(index + 1), credential: entry, living: undefined, weight: 1, limits: undefined }]
    }
    const { key, name = String(index + 1), weight, rpm, tpm, concurrency, ...rest } = entry
    const given = kinds.filter((kind) => rest[kind] !== undefined)
    if (key !== undefined && given.length > 0)
      report.value(at, `must say one of key, ${kinds.join(', ')}, not key and ${given.join(' and ')}`)
    else if (key === undefined && given.length === 0) report.value(at, `must say one of key, ${kinds.join(', ')}`)
    const living =
      key === undefined && given.length > 0
        ? new CredentialReader(at, env, report).read(rest, family, header, dialect)
        : undefined
    if (weight === 0 && entries.length > 1)
      report.warn([...at, 'weight'], 'this credential is used only when no other one can be')
    return [{ name, credential: key ?? '', living, weight, limits: limitsOf({ rpm, tpm, concurrency }) }]
  })
  refuseTwice(read, path, report)
  if (read.length > 1 && read.every(({ weight }) => weight === 0))
    report.warn(path, 'every weight is 0, which is as if every weight was 1')
  return read
}

/** Reports names that stand twice, and credentials that are the same. */
function refuseTwice(read: readonly ReadCredential[], path: Path, report: Report): void {
  const known = new Map<string, string>()
  const called = new Set<string>()
  for (const [index, { name, credential, living }] of read.entries()) {
    const at = [...path, index]
    if (called.has(name)) report.value(at, `another credential of this channel is called ${JSON.stringify(name)} too`)
    called.add(name)
    const same = living ? `source ${keyOf(living.source)}` : `text ${credential}`
    const other = known.get(same)
    if (other !== undefined && (living || credential !== ''))
      report.value(at, `is the same as the credential ${JSON.stringify(other)}: take one of them out`)
    known.set(same, name)
  }
}

/** Reads the limits of a channel; undefined when nothing is limited. */
export function readChannelLimits(
  channel: string,
  limits: Limits | undefined,
  report: Report
): LevelLimits | undefined {
  if (!isMap(limits)) return undefined
  const { models = {}, ...rest } = limits
  const path = ['channels', channel, 'limits']
  if (Object.keys(models).length > mostPatterns)
    report.value([...path, 'models'], `has more than ${mostPatterns} patterns`)
  const own = limitsOf(rest)
  const each = Object.entries(models).flatMap(([glob, one]) => {
    const its = limitsOf(one)
    return its ? [[glob, its] as const] : []
  })
  if (!own && each.length === 0) {
    report.warn(path, 'limits nothing: say one of rpm, tpm and concurrency, or take this out')
    return undefined
  }
  return { ...own, ...(each.length > 0 && { models: Object.fromEntries(each) }) }
}

/** Undefined where none is given. */
function limitsOf({ rpm, tpm, concurrency }: LevelLimits): LevelLimits | undefined {
  const given = Object.entries({ rpm, tpm, concurrency }).filter(([, limit]) => limit !== undefined)
  return given.length === 0 ? undefined : Object.fromEntries(given)
}
