// The commands `sluice keys`: create, list, change, rotate and revoke keys of a gateway, whether it runs or not.
import type { IssuedKey, ShownKey } from '../admin/tenancy/key-desk.ts'
import { accessOptions, allOf, places, rotationOption, withAdmin } from './asking/admin-access.ts'
import { defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import { rightsOf, rightsOptions } from './command/rights-options.ts'
import { renderTable } from './output/table.ts'

const path = '/admin/v1/keys'
const pathOf = (name: string): string => `${path}/${encodeURIComponent(name)}`

export const createKey = defineCommand({
  name: 'keys create',
  summary: 'makes a key and prints its secret, this once',
  options: {
    tenant: { value: 'TENANT', text: 'whose key it is' },
    project: { value: 'PROJECT', text: 'the project that its use counts for' },
    member: { value: 'MEMBER', text: 'the member of the project who uses it' },
    name: { value: 'NAME', text: 'what it is called, instead of a name that is made up' },
    ...rightsOptions,
    ...accessOptions,
    ...jsonOption
  },
  notes: `The secret alone is on standard output.${places}`,
  async run(options) {
    const { tenant, project, member, name, json } = options
    if (tenant === undefined) throw new UsageError('--tenant is missing')
    const request = { tenant, project, member, name, ...rightsOf(options) }
    return withAdmin(options, async (admin) => {
      const key = await admin.call<IssuedKey>('POST', path, request)
      tellSecret(key, json)
      process.stderr.write(
        `${key.name} was made for ${ownerOf(key)} in ${admin.where}. Its secret is not shown again.\n`
      )
      return exits.ok
    })
  }
})

export const listKeys = defineCommand({
  name: 'keys list',
  summary: 'lists all keys, without their secrets',
  options: { ...accessOptions, ...jsonOption },
  notes: places,
  run: async (options) =>
    withAdmin(options, async (admin) => {
      const keys = (await allOf<ShownKey>(admin, path)).sort((a, b) => (a.name < b.name ? -1 : 1))
      process.stdout.write(`${options.json ? JSON.stringify({ data: keys }) : table(keys)}\n`)
      return exits.ok
    })
})

export const changeKey = defineCommand({
  name: 'keys change',
  summary: 'changes what a key of the store may use and spend, from the next request on',
  operands: ['NAME'],
  options: { ...rightsOptions, ...accessOptions, ...jsonOption },
  notes: `What is not given stays as it is; the word none takes something out: --budget none.${places}`,
  run: async (options, [name]) => {
    const patch = rightsOf(options)
    if (Object.keys(patch).length === 0) throw new UsageError('there is nothing to change: give an option')
    return withAdmin(options, async (admin) => {
      const key = await admin.call<ShownKey>('PATCH', pathOf(name!), patch)
      if (options.json) process.stdout.write(`${JSON.stringify(key)}\n`)
      process.stderr.write(`${key.name} was changed in ${admin.where}.\n`)
      return exits.ok
    })
  }
})

export const rotateKey = defineCommand({
  name: 'keys rotate',
  summary: 'gives a key of the store a new secret and prints it, this once',
  operands: ['NAME'],
  options: {
    overlap: { value: 'TIME', text: 'how long the present secret stays valid: 24h', default: '0s' },
    ...rotationOption,
    ...accessOptions,
    ...jsonOption
  },
  notes: `The secret alone is on standard output. Budgets, limits and what was spent belong to the key and stay.${places}`,
  run: async (options, [name]) =>
    withAdmin(options, async (admin) => {
      const key = await admin.call<IssuedKey>('POST', `${pathOf(name!)}/rotate`, {
        overlap: options.overlap,
        rotation: options.rotation
      })
      tellSecret(key, options.json)
      const until = key.secrets[1]?.until ?? null
      const old = until === null ? 'The old secret is refused now.' : `The old secret is valid until ${until}.`
      process.stderr.write(`${key.name} has a new secret in ${admin.where}, which is not shown again. ${old}\n`)
      return exits.ok
    })
})

export const revokeKey = defineCommand({
  name: 'keys revoke',
  summary: 'revokes a key of the store from the next request on',
  operands: ['NAME'],
  options: { ...accessOptions, ...jsonOption },
  notes: places,
  run: async (options, [name]) =>
    withAdmin(options, async (admin) => {
      await admin.call('DELETE', pathOf(name!))
      if (options.json) process.stdout.write(`${JSON.stringify({ name, state: 'revoked' })}\n`)
      process.stderr.write(`${name} is revoked in ${admin.where}.\n`)
      return exits.ok
    })
})

function tellSecret(key: IssuedKey, json: boolean): void {
  process.stdout.write(`${json ? JSON.stringify(key) : key.key}\n`)
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
    key.budget.map(({ usd, per }) => `${usd}/${per}`).join(',') || '-',
    key.expires?.slice(0, 10) ?? '-',
    key.hint ?? '-'
  ])
  return renderTable([['NAME', 'STATE', 'SOURCE', 'OWNER', 'MODELS', 'BUDGET', 'EXPIRES', 'SECRET'], ...rows])
}
