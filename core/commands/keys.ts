// The commands `sluice keys`: create, list and revoke keys of a gateway, whether it runs or not.
import { plugins } from '../../plugins/index.ts'
import type { ShownKey } from '../admin/key-desk.ts'
import { readConfig } from '../program/configuration.ts'
import type { Config } from '../catalogue/settings.ts'
import { configOption, defineCommand, exits, jsonOption, UsageError } from './command.ts'
import type { Given } from './command.ts'
import { withKeys } from './key-access.ts'
import { renderTable } from './table.ts'

const places = `
Goes through the admin API of the gateway when it runs, by the address and token of the same
configuration, and else opens its store.`

const keyOptions = {
  tenant: { value: 'TENANT', text: 'whose key it is' },
  project: { value: 'PROJECT', text: 'the project that its use counts for' },
  member: { value: 'MEMBER', text: 'the member of the project who uses it' },
  name: { value: 'NAME', text: 'what it is called, instead of a name that is made up' },
  models: { value: 'A,B', text: 'models it may use; * stands for anything' },
  endpoints: { value: 'A,B', text: 'endpoints it may call' },
  rps: { value: 'N', text: 'requests per second' },
  rpm: { value: 'N', text: 'requests per minute' },
  tpm: { value: 'N', text: 'tokens per minute' },
  concurrency: { value: 'N', text: 'requests at one time' },
  budget: { value: 'USD/PERIOD', text: 'what it may spend: 5/day, 100/month, 1000/total' },
  expires: { value: 'DATE', text: 'refused from then on: 2027-01-01' }
} as const

export const createKey = defineCommand({
  name: 'keys create',
  summary: 'makes a key and prints its secret, this once',
  options: { ...keyOptions, ...configOption, ...jsonOption },
  notes: `The secret alone is on standard output.${places}`,
  async run(options) {
    const request = requestOf(options)
    return withKeys(await configOf(options), async (keys, where) => {
      const key = await keys.create(request)
      process.stdout.write(`${options.json ? JSON.stringify(key) : key.key}\n`)
      process.stderr.write(`${key.name} was made for ${ownerOf(key)} in ${where}. Its secret is not shown again.\n`)
      return exits.ok
    })
  }
})

export const listKeys = defineCommand({
  name: 'keys list',
  summary: 'lists all keys, without their secrets',
  options: { ...configOption, ...jsonOption },
  notes: places,
  run: async (options) =>
    withKeys(await configOf(options), async (access) => {
      const keys = (await access.list()).sort((a, b) => (a.name < b.name ? -1 : 1))
      process.stdout.write(`${options.json ? JSON.stringify({ data: keys }) : table(keys)}\n`)
      return exits.ok
    })
})

export const revokeKey = defineCommand({
  name: 'keys revoke',
  summary: 'revokes a key of the store from the next request on',
  operands: ['NAME'],
  options: configOption,
  notes: places,
  run: async (options, [name]) =>
    withKeys(await configOf(options), async (keys, where) => {
      await keys.revoke(name!)
      process.stderr.write(`${name} is revoked in ${where}.\n`)
      return exits.ok
    })
})

async function configOf({ config: file }: { config: string }): Promise<Config> {
  return (await readConfig({ file, env: process.env, plugins })).config
}

/** The options in the form that the admin API takes: that of an entry of `keys:` in the file. */
function requestOf(options: Given<typeof keyOptions>): object {
  const { tenant, project, member, name, models, endpoints, budget, expires } = options
  if (tenant === undefined) throw new UsageError('--tenant is missing')
  const limits = Object.fromEntries(
    (['rps', 'rpm', 'tpm', 'concurrency'] as const).flatMap((limit) => {
      const text = options[limit]
      return text === undefined ? [] : [[limit, readNumber(limit, text)]]
    })
  )
  const given = {
    tenant,
    project,
    member,
    name,
    models: models?.split(','),
    endpoints: endpoints?.split(','),
    limits,
    budget: readBudget(budget),
    expires
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

function readNumber(option: string, text: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new UsageError(`--${option} is ${JSON.stringify(text)}: it must be a whole number`)
  return Number(text)
}

function readBudget(text: string | undefined): { usd: string; per: string } | undefined {
  if (text === undefined) return undefined
  const [, usd, per] = /^([^/]+)\/(day|month|total)$/.exec(text) ?? []
  if (usd === undefined || per === undefined)
    throw new UsageError(`--budget is ${JSON.stringify(text)}: it must be like 5/day, 100/month or 1000/total`)
  return { usd, per }
}

function ownerOf({ tenant, project, member }: ShownKey): string {
  return [tenant, project, member].filter((level) => level !== null).join('/')
}

function table(keys: readonly ShownKey[]): string {
  const rows = keys.map((key) => [
    key.name,
    key.state,
    key.source,
    ownerOf(key),
    key.models.join(','),
    key.budget ? `${key.budget.usd}/${key.budget.per}` : '-',
    key.expires?.slice(0, 10) ?? '-',
    key.hint ?? '-'
  ])
  return renderTable([['NAME', 'STATE', 'SOURCE', 'OWNER', 'MODELS', 'BUDGET', 'EXPIRES', 'SECRET'], ...rows])
}
