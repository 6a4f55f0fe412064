// The upstream that an entry of LiteLLM's `model_list` means: https://docs.litellm.ai/docs/proxy/configs and, for each
// provider, the page of its name below https://docs.litellm.ai/docs/providers.
import { isMap } from '../../options/schema-check.ts'
import { literal } from './draft.ts'
import type { Entry } from './draft.ts'
import type { Fates } from './fates.ts'
import providers from './litellm-providers.json' with { type: 'json' }

/** A provider: its preset (another one for rerankings), or its address, and what stands behind an address that is given. */
interface Provider {
  preset?: string
  rerank?: string
  base_url?: string
  below?: string
  /** The variable that has its key where the file has none. */
  variable?: string
}

const known: Readonly<Record<string, Provider>> = providers

/** What a deployment is sent to, without its models. */
export interface Upstream {
  readonly name: string
  readonly model: string
  readonly channel: Entry
}

/** A text of the file: `os.environ/NAME` is a variable, and any other text is what it says. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  if (typeof value !== 'string' || value === '') return undefined
  const [, variable] = /^os\.environ\/(\w+)$/.exec(value) ?? []
  return variable === undefined ? literal(value) : `\${${variable}}`
}

/**
 * The upstream of `litellm_params`, whose members it takes from `params`; a text that says why there is none. `mode`: of
 * `model_info`.
 */
export function upstreamOf(params: Entry, mode: unknown, fates: Fates, model: string): Upstream | string {
  const [provider, name] = split(String(params['model']), take(params, 'custom_llm_provider'))
  if (provider === undefined) return `nobody knows the provider of ${name}: write provider/${name}`
  const base = textOf(take(params, 'api_base') ?? take(params, 'base_url'))?.replace(/\/+$/, '')
  const key = textOf(take(params, 'api_key'))
  const made = channelOf(provider, name, { base, key, mode }, params)
  if (typeof made === 'string') return made
  const organization = textOf(take(params, 'organization'))
  if (organization !== undefined) made.channel['headers'] = { 'OpenAI-Organization': organization }
  const extra = take(params, 'extra_headers') ?? take(params, 'headers')
  if (isMap(extra)) {
    const own = Object.fromEntries(Object.entries(extra).map(([header, value]) => [header, textOf(value) ?? '']))
    made.channel['headers'] = { ...(made.channel['headers'] as object | undefined), ...own }
  }
  if (made.channel['credential'] !== undefined && key !== undefined && !key.startsWith('${'))
    fates.approximated('api_key', 'it is in clear in the file: put a variable in its place', model)
  return made
}

/** Takes a member out of what is still to be read. */
export function take(params: Entry, name: string): unknown {
  const value = params[name]
  delete params[name]
  return value === null ? undefined : value
}

/** The provider, and its name of the model. LiteLLM tells the provider of some names without being told. */
function split(full: string, given: unknown): [provider: string | undefined, model: string] {
  const at = full.indexOf('/')
  const first = at === -1 ? '' : full.slice(0, at)
  if (typeof given === 'string') return [given, first === given ? full.slice(at + 1) : full]
  if (platforms.has(first) || Object.hasOwn(known, first)) return [first, full.slice(at + 1)]
  if (at !== -1) return [undefined, full]
  if (/^(?:gpt-|chatgpt-|o\d|text-embedding-|dall-e-|whisper-|tts-|ft:)/.test(full)) return ['openai', full]
  if (full.startsWith('claude-')) return ['anthropic', full]
  if (full.startsWith('command-')) return ['cohere', full]
  return [undefined, full]
}

const platforms: ReadonlySet<string> = new Set(['azure', 'azure_ai', 'bedrock', 'vertex_ai', 'vertex_ai_beta'])

interface Given {
  base: string | undefined
  key: string | undefined
  mode: unknown
}

function channelOf(provider: string, model: string, given: Given, params: Entry): Upstream | string {
  switch (provider) {
    case 'azure':
      return azure(model, given, params)
    case 'bedrock':
      return bedrock(model, given, params)
    case 'vertex_ai':
    case 'vertex_ai_beta':
      return vertex(model, given, params)
    case 'azure_ai':
      if (given.base === undefined) return 'azure_ai has no api_base'
      return open('azure-ai', model, { protocol: 'openai', base_url: given.base, endpoints: common }, given)
    default:
      return Object.hasOwn(known, provider)
        ? vendor(provider, model, given)
        : `the provider ${provider} has no counterpart: it may be one of OpenAI's protocol, as openai/ with api_base`
  }
}

/** What those who speak OpenAI's protocol mostly have. */
const common: readonly string[] = ['chat', 'completions', 'embeddings']

function vendor(provider: string, model: string, given: Given): Upstream | string {
  const { preset, rerank, base_url = '', below = '', variable } = known[provider]!
  const { base, mode } = given
  const key = given.key ?? (variable === undefined || base !== undefined ? undefined : `\${${variable}}`)
  const address = base === undefined ? base_url : base.endsWith(below) ? base : `${base}${below}`
  const own = mode === 'rerank' ? (rerank ?? preset) : preset
  // A vendor's preset says what that vendor has, and nothing of another address.
  const other = provider === 'openai' && base !== undefined && !base.startsWith('https://api.openai.com')
  if (own === undefined || other) {
    if (address === '') return `${provider} has no api_base`
    return open(hostOf(address), model, { protocol: 'openai', base_url: address, endpoints: common }, { ...given, key })
  }
  const channel: Entry = {
    preset: own,
    protocol: protocols[own] ?? 'openai',
    ...(address !== '' && { base_url: address })
  }
  return open(own, model, channel, { ...given, key })
}

const protocols: Readonly<Record<string, string>> = { anthropic: 'anthropic', gemini: 'gemini' }

function open(name: string, model: string, channel: Entry, { key }: { key: string | undefined }): Upstream {
  const address = channel['base_url']
  return {
    name,
    model,
    channel: {
      ...channel,
      ...(typeof address === 'string' && isOwn(address) && { private: true }),
      ...(key !== undefined && { credential: key })
    }
  }
}

function azure(model: string, { base, key }: Given, params: Entry): Upstream | string {
  if (base === undefined) return 'azure has no api_base'
  const version = textOf(take(params, 'api_version'))
  for (const member of ['azure_ad_token', 'tenant_id', 'client_id', 'client_secret']) take(params, member)
  const channel: Entry = {
    preset: 'azure',
    protocol: 'openai',
    base_url: base.endsWith('/openai') ? base : `${base}/openai`,
    ...(version !== undefined && { query: { 'api-version': version } }),
    ...(key === undefined && { credential: { azure: {} } })
  }
  return open(hostOf(base).replace(/\..*$/, '') || 'azure', model, channel, { key })
}

function bedrock(model: string, { base }: Given, params: Entry): Upstream | string {
  const region = textOf(take(params, 'aws_region_name'))
  const profile = textOf(take(params, 'aws_profile_name'))
  const role = textOf(take(params, 'aws_role_name'))
  for (const member of ['aws_access_key_id', 'aws_secret_access_key', 'aws_session_token', 'aws_session_name'])
    take(params, member)
  if (region === undefined || region.startsWith('$')) return 'bedrock needs the name of its region as aws_region_name'
  const channel: Entry = {
    preset: 'bedrock',
    protocol: 'bedrock',
    base_url: base ?? `https://bedrock-runtime.${region}.amazonaws.com`,
    credential: { aws: { region, ...(profile !== undefined && { profile }), ...(role !== undefined && { role }) } }
  }
  return { name: `bedrock-${region}`, model: model.replace(/^(?:converse|invoke)\//, ''), channel }
}

function vertex(model: string, { base }: Given, params: Entry): Upstream | string {
  const project = textOf(take(params, 'vertex_project'))
  const location = textOf(take(params, 'vertex_location')) ?? 'us-central1'
  const file = take(params, 'vertex_credentials')
  if (project === undefined) return 'vertex_ai needs the name of its project as vertex_project'
  const claude = model.startsWith('claude')
  const host = location === 'global' ? 'aiplatform' : `${location}-aiplatform`
  const credentials = typeof file === 'string' && !file.trimStart().startsWith('{') ? textOf(file) : undefined
  const channel: Entry = {
    preset: claude ? 'vertex-claude' : 'vertex',
    protocol: claude ? 'anthropic' : 'gemini',
    base_url: base ?? `https://${host}.googleapis.com/v1/projects/${project}/locations/${location}`,
    credential: { gcp: credentials === undefined ? {} : { credentials } }
  }
  return { name: claude ? 'vertex-claude' : 'vertex', model, channel }
}

/** The host of an address; the address as it is when it cannot be read, as with one in a variable. */
export function hostOf(address: string): string {
  return URL.canParse(address) ? new URL(address).host.replaceAll(':', '-') : 'upstream'
}

/** Whether an address is one of this machine or this network, which channels reach only when they say so. */
export function isOwn(address: string): boolean {
  if (!URL.canParse(address)) return false
  const { hostname } = new URL(address)
  return (
    !hostname.includes('.') ||
    /^(?:127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.)/.test(hostname) ||
    /\.(?:local|internal|lan|svc)$/.test(hostname)
  )
}
