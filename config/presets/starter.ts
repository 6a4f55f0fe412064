// Writes a first gateway.yaml, with comments, for somebody who has none: a few upstreams, one tenant and one key.
import { parse, stringify } from 'yaml'
import starters from './starters.json' with { type: 'json' }

/** What a starter says of an upstream: its channel, the variable that has its credential, and some of its models. */
interface Upstream {
  channel: Record<string, string>
  variable?: string
  models: readonly string[]
  /** The price of each of its models, as `models.<name>.price` takes it. */
  price: string | Record<string, number>
}

const upstreams: Readonly<Record<string, Upstream>> = starters

/** The names of upstreams that a first file can have. */
export const starterNames: readonly string[] = Object.keys(starters)

/** The choices that a first file is made of. All of them were checked. */
export interface StarterChoices {
  /** Some of {@link starterNames}, at least one. */
  upstreams: readonly string[]
  tenant: string
  /** What the tenant may spend, or undefined for no bound. */
  budget: { usd: string; per: string } | undefined
  /** The SHA-256 of the first key's secret, in hexadecimal digits. */
  sha256: string
  host: string
  port: number
  adminPort: number
  /** Where the schema for editors is, relative to the file; undefined when there is none. */
  schema: string | undefined
}

/** The environment variables that the file of these upstreams needs, in their order. */
export function variablesOf(names: readonly string[]): string[] {
  return names.flatMap((name) => upstreams[name]!.variable ?? [])
}

/** The models of the file of these upstreams, in their order and each once. */
export function modelsOf(names: readonly string[]): string[] {
  return [...new Set(names.flatMap((name) => upstreams[name]!.models))]
}

/** The text of the file. */
export function starterFile(choices: StarterChoices): string {
  const { tenant, budget, sha256, host, port, adminPort, schema } = choices
  return `${schema === undefined ? '' : `# yaml-language-server: $schema=${schema}\n# $schema: ${schema}\n#\n`}\
# The whole gateway in one file. A running gateway takes it over as soon as it is saved, without touching a running
# request; a file with a problem changes nothing. \`sluice check\` says everything that is wrong with it, and \`sluice diff\`
# what saving it would change. \${NAME} and \${NAME:-default} come from the environment.

# Clients. Beyond this machine use TLS: tls: { cert: ./cert.pem, key: ./key.pem }
listen: ${line({ host, port })}
# Health, metrics and the admin API. Without a token it answers programs on this machine only.
admin: { host: 127.0.0.1, port: ${adminPort}, token: "\${SLUICE_ADMIN_TOKEN:-}" }
# Keys, balances and the log of requests, relative to this file.
store: { sqlite: ./data/sluice.db }

# Ways to upstreams. Clients see models alone. Under \`models\` is the name for clients, then the name at the upstream.
channels:
${choices.upstreams.flatMap(channelLines).join('\n')}

# What clients can ask for, with its price in US dollars per million tokens. \`price: list\` takes the public price of the
# list that comes with Sluice; what you negotiated goes here: price: { input: 1.25, cached_input: 0.125, output: 10 }
models:
${modelLines(choices.upstreams).join('\n')}

# Who may use what, and spend how much. Tenants share nothing. More of them, with projects, members and keys, are made
# here, or while the gateway runs: \`sluice tenants create\`, \`sluice keys create --tenant ${tenant}\`.
tenants:
  ${line(tenant)}:
    models: ["*"]
${budget ? `    budget: { usd: ${budget.usd}, per: ${budget.per} }` : '    # budget: { usd: 100, per: month }'}

keys:
  # Its secret was shown when this file was made. This is the SHA-256 of it.
  - name: first
    key_sha256: ${sha256}
    tenant: ${line(tenant)}
    models: ["*"]
    limits: { rpm: 600, concurrency: 32 }

# Every request passes these from top to bottom, every answer from bottom to top.
chain:
  - auth: {}                  # who is asking
  - idempotency: {}           # a request that is sent again with its Idempotency-Key is run and charged once
  - quota: {}                 # reserves what the request may cost, and settles what it did cost
  - ratelimit: {}             # requests, tokens and concurrency
  - route: {}                 # which channel, and the next one when it fails
  - protocol-translate: {}    # between the client's protocol and the channel's
  - usage-meter: {}           # what was really used
  - log: { sink: stdout, bodies: false }
`
}

function channelLines(name: string): string[] {
  const { channel, variable, models } = upstreams[name]!
  const served = Object.fromEntries(models.map((model) => [model, model]))
  const entries = { ...channel, ...(variable !== undefined && { credential: `\${${variable}}` }), models: served }
  return [`  ${name}:`, ...Object.entries(entries).map(([key, value]) => `    ${key}: ${line(value)}`)]
}

function modelLines(names: readonly string[]): string[] {
  const prices = new Map(
    names.flatMap((name) => upstreams[name]!.models.map((model) => [model, upstreams[name]!.price]))
  )
  return Array.from(prices, ([model, price]) => `  ${line(model)}: ${line({ price })}`)
}

/** A value in the flow style of YAML, on one line. */
function line(value: unknown): string {
  const text = stringify(value, { collectionStyle: 'flow', lineWidth: 0, flowCollectionPadding: true }).trim()
  return parse(text) === value || typeof value === 'object' ? text : JSON.stringify(value)
}
