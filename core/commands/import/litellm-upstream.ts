// The upstream that an entry of LiteLLM's `model_list` means: https://docs.litellm.ai/docs/proxy/configs and, for each
// provider, the page of its name below https://docs.litellm.ai/docs/providers.
import { isMap } from '../../options/schema-check.ts'
import { literal } from './draft.ts'
import type { Entry } from './draft.ts'
import type { Fates } from './fates.ts'
import providers from './litellm-providers.json' with { type: 'json' }

/** What is known of a provider; the words are those of `litellm_params`. */
interface Provider {
  readonly preset?: string
  /** The preset for rerankings. */
  readonly rerank?: string
  /** `openai` unless said. */
  readonly protocol?: string
  /** Its address, with parameters in braces. */
  readonly base_url?: string
  /** What stands behind an address that is given. */
  readonly below?: string
  /** Where the preset holds; another address is of somebody who speaks the same protocol. */
  readonly home?: string
  /** The variable that has its key where the file has none. */
  readonly variable?: string
  /** Parameters that have to be there, and the values of others that are left out. */
  readonly required?: readonly string[]
  readonly usual?: Readonly<Record<string, string>>
  /** Parameters of the address, each with the parameter that it is of. */
  readonly query?: Readonly<Record<string, string>>
  /** Where the credential comes from when there is no key: its options, each with its parameter. */
  readonly source?: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** Parameters that the source of the credential knows by itself. */
  readonly ignored?: readonly string[]
  /** What is taken off in front of the name of a model. */
  readonly without?: string
  /** Names of models that are of this provider without being told. */
  readonly names?: string
  /** The part of the host that the channel is called by. */
  readonly named?: string
  /** Another row, where a member matches. */
  readonly instead?: readonly { readonly member: string; readonly matches: string; readonly provider: string }[]
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

/** A text or a number of the file as a text; empty for anything else. */
export function wordOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}

/**
 * The upstream of `litellm_params`, whose members it takes from `params`; a text that says why there is none.
 * `mode`: of `model_info`.
 */
export function upstreamOf(params: Entry, mode: unknown, fates: Fates, model: string): Upstream | string {
  const [first, name] = split(wordOf(params['model']), take(params, 'custom_llm_provider'))
  if (first === undefined) return `nobody knows the provider of ${name}: write provider/${name}`
  if (!Object.hasOwn(known, first))
    return `the provider ${first} has no counterpart: it may be one of OpenAI's protocol, as openai/ with api_base`
  const row = rowOf(first, { ...params, model: name })
  const absent = row.required?.find((member) => textOf(params[member]) === undefined)
  if (absent !== undefined) return `${first} has no ${absent}`
  const key = textOf(take(params, 'api_key'))
  const made = channelOf(row, key, mode, params)
  if (typeof made === 'string') return `${first} ${made}`
  const { channel } = made
  const organization = textOf(take(params, 'organization'))
  if (organization !== undefined) channel['headers'] = { 'OpenAI-Organization': organization }
  const extra = take(params, 'extra_headers') ?? take(params, 'headers')
  if (isMap(extra)) {
    const own = Object.fromEntries(Object.entries(extra).map(([header, value]) => [header, textOf(value) ?? '']))
    channel['headers'] = { ...(channel['headers'] as object | undefined), ...own }
  }
  if (key !== undefined && !key.startsWith('${'))
    fates.approximated('api_key', 'it is in clear in the file: put a variable in its place', model)
  return { ...made, model: row.without === undefined ? name : name.replace(new RegExp(row.without), '') }
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
  if (Object.hasOwn(known, first)) return [first, full.slice(at + 1)]
  const named = Object.entries(known).find(([, { names }]) => names !== undefined && new RegExp(names).test(full))
  return [at === -1 ? named?.[0] : undefined, full]
}

/** The row of a provider that holds for these parameters. */
function rowOf(provider: string, params: Entry): Provider {
  const row = known[provider]!
  const other = row.instead?.find(({ member, matches }) => new RegExp(matches).test(wordOf(params[member])))
  return other ? rowOf(other.provider, params) : row
}

/** What those who speak OpenAI's protocol mostly have. */
const common: readonly string[] = ['chat', 'completions', 'embeddings']

/** The channel, and what it is called; a text that says what is missing. */
function channelOf(
  row: Provider,
  given: string | undefined,
  mode: unknown,
  params: Entry
): Pick<Upstream, 'name' | 'channel'> | string {
  const { below = '', home, named, source, usual = {}, protocol = 'openai' } = row
  const base = textOf(take(params, 'api_base') ?? take(params, 'base_url'))?.replace(/\/+$/, '')
  const taken = new Set(row.ignored)
  const valueOf = (member: string): string | undefined => {
    taken.add(member)
    return textOf(params[member]) ?? usual[member]
  }
  const address = base === undefined ? row.base_url : base.endsWith(below) ? base : `${base}${below}`
  const base_url = address?.replaceAll(/(?<!\$)\{(\w+)\}/g, (_, member: string) => valueOf(member) ?? '')
  const elsewhere = home !== undefined && base !== undefined && !base.startsWith(home)
  const preset = elsewhere ? undefined : mode === 'rerank' ? (row.rerank ?? row.preset) : row.preset
  if (preset === undefined && base_url === undefined) return 'has no api_base'
  const variable = row.variable === undefined || base !== undefined ? undefined : `\${${row.variable}}`
  const credential = given ?? variable ?? (source && sourceOf(source, valueOf))
  const query = Object.entries(row.query ?? {}).flatMap(([name, member]) => {
    const value = valueOf(member)
    return value === undefined ? [] : [[name, value] as const]
  })
  for (const member of taken) take(params, member)
  const host = base_url === undefined ? '' : hostOf(base_url)
  return {
    name: named === undefined ? (preset ?? host) : (new RegExp(named).exec(host)?.[0] ?? host),
    channel: {
      ...(preset !== undefined && { preset }),
      protocol,
      ...(base_url !== undefined && { base_url }),
      ...(base_url !== undefined && isOwn(base_url) && { private: true }),
      ...(preset === undefined && { endpoints: common }),
      ...(query.length > 0 && { query: Object.fromEntries(query) }),
      ...(credential !== undefined && { credential })
    }
  }
}

/** A source of credentials with those of its options that are given; a text in JSON is no file that it could name. */
function sourceOf(
  source: NonNullable<Provider['source']>,
  valueOf: (member: string) => string | undefined
): Record<string, object> {
  return Object.fromEntries(
    Object.entries(source).map(([kind, options]) => [
      kind,
      Object.fromEntries(
        Object.entries(options).flatMap(([option, member]) => {
          const value = valueOf(member)
          return value === undefined || value.trimStart().startsWith('{') ? [] : [[option, value] as const]
        })
      )
    ])
  )
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
