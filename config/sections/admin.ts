// The section `admin` of gateway.yaml: the operator's listener, and how people sign in to it.
import type { OidcSettings } from '../../core/catalogue/settings.ts'
import type { OptionSchema } from '../../core/options/schema.ts'
import { names } from '../names.ts'
import { isLocal } from '../channels/proxy.ts'
import type { Report } from '../report.ts'

const groups = (role: string) =>
  ({
    type: 'array',
    default: [],
    description: `Groups whose people ${role}.`,
    items: { type: 'string', minLength: 1, description: 'A group as the provider names it, in the same case.' }
  }) as const

const byTenant = (role: string, description: string) =>
  ({
    type: 'object',
    default: {},
    propertyNames: names,
    additionalProperties: groups(role),
    description
  }) as const

const oidcShape = {
  type: 'object',
  description:
    'Sign-in of people by OpenID Connect, at /admin/login; the provider sends them back to /admin/callback. Without it only tokens come in.',
  required: ['issuer', 'client_id', 'roles'],
  properties: {
    issuer: { type: 'string', minLength: 1, description: 'The issuer as the provider names it: an https address.' },
    client_id: { type: 'string', minLength: 1, description: 'What the provider calls this gateway.' },
    client_secret: { type: 'string', secret: true, default: '', description: 'Empty for a public client.' },
    scopes: {
      type: 'array',
      default: ['openid', 'profile', 'email'],
      items: { type: 'string', minLength: 1, description: 'A scope.' },
      description: 'What the provider is asked for; openid has to be among it.'
    },
    groups_claim: {
      type: 'string',
      minLength: 1,
      default: 'groups',
      description: 'The claim with the groups, in the ID token or at userinfo. For app roles of Entra: roles.'
    },
    roles: {
      type: 'object',
      description: 'Which groups give which role. Who is in none does not come in; of several the first counts.',
      properties: {
        owner: groups('may do everything'),
        operator: groups('may do everything but what makes or changes an owner'),
        tenant_admin: byTenant('administer this tenant', 'Groups by tenant.'),
        viewer: groups('see everything'),
        tenant_viewer: byTenant(
          'see what is of this tenant',
          'Groups by tenant, whose people are viewers of that tenant alone.'
        )
      }
    },
    base_url: {
      type: 'string',
      minLength: 1,
      description: 'The https address by which browsers reach the admin listener. Needed beyond loopback addresses.'
    }
  }
} as const satisfies OptionSchema

export const adminShape = {
  type: 'object',
  or: [false],
  description:
    "The operator's listener: health, metrics, admin API, console; false for none. A change needs a restart.",
  default: {},
  properties: {
    host: { type: 'string', minLength: 1, default: '127.0.0.1', description: 'Address to listen on.' },
    port: { type: 'integer', minimum: 0, maximum: 65_535, default: 9090, description: 'TCP port; 0 takes a free one.' },
    token: {
      type: 'string',
      secret: true,
      default: '',
      description:
        'Bearer token of the admin API; when empty it answers loopback addresses only. Beyond loopback at least 16 characters.'
    },
    origins: {
      type: 'array',
      default: [],
      description:
        'The addresses by which browsers reach this listener through a proxy: https://sluice-admin.internal. Addresses of the machine and localhost need no entry.',
      items: {
        type: 'string',
        minLength: 1,
        description: 'An origin: scheme, name, and port if it is not the usual one.'
      }
    },
    session: {
      type: 'object',
      default: {},
      description: 'How long somebody who signed in stays so.',
      properties: {
        idle: {
          type: 'string',
          format: 'duration',
          default: '1h',
          atLeast: '1m',
          atMost: '7d',
          description: 'Ends a session without a request for so long. An open event stream is no request.'
        },
        total: {
          type: 'string',
          format: 'duration',
          default: '12h',
          atLeast: '1m',
          atMost: '30d',
          description: 'Ends a session so long after the sign-in.'
        }
      }
    },
    write_config: {
      type: 'boolean',
      default: false,
      description: 'true: owners may write the files of the configuration by the admin API and the console.'
    },
    console: {
      type: 'boolean',
      default: true,
      description: 'Whether the console is there, at /console/; it shows and changes by the admin API alone.'
    },
    oidc: oidcShape
  }
} as const satisfies OptionSchema

/** Checks that origins are written as browsers write them. */
export function checkOrigins(origins: readonly string[], report: Report): void {
  for (const [index, origin] of origins.entries()) {
    const at = ['admin', 'origins', index]
    if (!report.sound(...at)) continue
    const url = URL.canParse(origin) ? new URL(origin) : undefined
    if (url?.origin !== origin || !/^https?:$/.test(url.protocol))
      report.value(
        at,
        'must be an origin like https://sluice-admin.internal: no path, no slash at its end, small letters'
      )
  }
}

/** Checks what the schema of `admin.oidc` cannot say: what goes over the network in clear is for this machine alone. */
export function checkSignIn({ issuer, scopes, base_url: base }: OidcSettings, host: string, report: Report): void {
  const at = (name: string): string[] => ['admin', 'oidc', name]
  const safe = (text: string): boolean => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    return url?.protocol === 'https:' || (url?.protocol === 'http:' && isLocal(url.hostname.replace(/^\[|\]$/g, '')))
  }
  const sound = (name: string): boolean => report.sound(...at(name))
  if (sound('issuer') && !safe(issuer)) report.value(at('issuer'), 'must be an https address, or http of this machine')
  if (sound('scopes') && !scopes.includes('openid')) report.value(at('scopes'), 'must have openid')
  if (!sound('base_url')) return
  if (base === undefined ? !isLocal(host) : !safe(base) || base.endsWith('/'))
    report.value(
      base === undefined ? ['admin', 'oidc'] : at('base_url'),
      base === undefined
        ? 'needs base_url, the https address by which browsers reach the admin listener, as "host" is not of this machine'
        : 'must be an https address without a slash at its end, or http of this machine'
    )
}
