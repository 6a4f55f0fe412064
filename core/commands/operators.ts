// The commands `sluice operators`: create, list, change, rotate and revoke those who may use the admin API.
import { roles } from '../admin/access/roles.ts'
import type { IssuedOperator, ShownOperator } from '../admin/access/operator-desk.ts'
import { accessOptions, allOf, places, rotationOption, withAdmin } from './asking/admin-access.ts'
import { defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import type { Command } from './command/command.ts'
import { readSwitch } from './command/rights-options.ts'
import { renderTable } from './output/table.ts'

const path = '/admin/v1/operators'
const pathOf = (name: string): string => `${path}/${encodeURIComponent(name)}`
const roleOption = { value: 'ROLE', text: roles.join(', ') } as const
const lifetimeOption = {
  value: 'TIME',
  text: 'how long the token is valid, 366d at most: 30d',
  default: '90d'
} as const

const enabledOption = { value: 'yes|no', text: 'no refuses its tokens until it is yes again' } as const

function switchOf({ enabled }: { enabled: string | undefined }): boolean | undefined {
  return enabled === undefined ? undefined : readSwitch(enabled)
}

/** All commands of operators. */
export const operatorCommands: readonly Command[] = [
  defineCommand({
    name: 'operators create',
    summary: 'lets somebody use the admin API, and prints a token for it, this once',
    operands: ['NAME'],
    options: {
      role: roleOption,
      tenant: { value: 'TENANT', text: 'of this tenant alone: for tenant_admin and viewer' },
      enabled: enabledOption,
      lifetime: lifetimeOption,
      ...accessOptions,
      ...jsonOption
    },
    notes: `The token alone is on standard output.${places}`,
    run: async (options, [name]) => {
      const { role, tenant, lifetime } = options
      const enabled = switchOf(options)
      if (role === undefined) throw new UsageError(`--role is missing: one of ${roles.join(', ')}`)
      return withAdmin(options, async (admin) => {
        const issued = await admin.call<IssuedOperator>('POST', path, { name, role, tenant, enabled, lifetime })
        tellToken(issued, options.json)
        process.stderr.write(
          `${name} was made in ${admin.where}. Its token is valid until ${issued.tokens[0]!.expires} and not shown again.\n`
        )
        return exits.ok
      })
    }
  }),
  defineCommand({
    name: 'operators list',
    summary: 'lists who may use the admin API by a token of their own',
    options: { ...accessOptions, ...jsonOption },
    notes: places,
    run: async (options) =>
      withAdmin(options, async (admin) => {
        const operators = await allOf<ShownOperator>(admin, path)
        process.stdout.write(`${options.json ? JSON.stringify({ data: operators }) : table(operators)}\n`)
        return exits.ok
      })
  }),
  defineCommand({
    name: 'operators change',
    summary: 'changes what an operator may do, from its next request on',
    operands: ['NAME'],
    options: {
      role: roleOption,
      tenant: { value: 'TENANT', text: 'of this tenant alone; none for the whole gateway' },
      enabled: enabledOption,
      ...accessOptions,
      ...jsonOption
    },
    notes: `What is not given stays as it is.${places}`,
    run: async (options, [name]) => {
      const { role, tenant } = options
      const enabled = switchOf(options)
      const patch = {
        ...(role !== undefined && { role }),
        ...(tenant !== undefined && { tenant: tenant === 'none' ? null : tenant }),
        ...(enabled !== undefined && { enabled })
      }
      if (Object.keys(patch).length === 0) throw new UsageError('there is nothing to change: give an option')
      return withAdmin(options, async (admin) => {
        const operator = await admin.call<ShownOperator>('PATCH', pathOf(name!), patch)
        if (options.json) process.stdout.write(`${JSON.stringify(operator)}\n`)
        process.stderr.write(`${name} was changed in ${admin.where}.\n`)
        return exits.ok
      })
    }
  }),
  defineCommand({
    name: 'operators rotate',
    summary: 'gives an operator a new token and prints it, this once',
    operands: ['NAME'],
    options: {
      overlap: { value: 'TIME', text: 'how long the present token stays valid: 24h', default: '0s' },
      ...rotationOption,
      lifetime: lifetimeOption,
      ...accessOptions,
      ...jsonOption
    },
    notes: `The token alone is on standard output.${places}`,
    run: async (options, [name]) => {
      const { overlap, rotation, lifetime } = options
      return withAdmin(options, async (admin) => {
        const issued = await admin.call<IssuedOperator>('POST', `${pathOf(name!)}/tokens`, {
          overlap,
          rotation,
          lifetime
        })
        tellToken(issued, options.json)
        const old = issued.tokens[1]
        process.stderr.write(
          `${name} has a new token in ${admin.where}, which is not shown again. ${
            old ? `The old one is valid until ${old.expires}.` : 'The old one is refused now.'
          }\n`
        )
        return exits.ok
      })
    }
  }),
  defineCommand({
    name: 'operators revoke',
    summary: 'revokes an operator for good, from its next request on',
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
]

function tellToken(issued: IssuedOperator, json: boolean): void {
  process.stdout.write(`${json ? JSON.stringify(issued) : issued.token}\n`)
}

function table(operators: readonly ShownOperator[]): string {
  const rows = operators.map(({ name, role, tenant, state, tokens: [newest] }) => [
    name,
    role,
    tenant ?? '-',
    state,
    newest?.hint ?? '-',
    newest?.expires.slice(0, 10) ?? '-',
    newest?.last_used?.slice(0, 16) ?? '-'
  ])
  return renderTable([['NAME', 'ROLE', 'TENANT', 'STATE', 'TOKEN', 'EXPIRES', 'LAST USED'], ...rows])
}
