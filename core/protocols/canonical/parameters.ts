// The parameters that mean the same in every protocol and differ only in name.
import type { RequestFeature } from './features.ts'
import type { Losses } from './losses.ts'
import type { Members } from './members.ts'
import type { ModelRequest } from './request.ts'

/** How a parameter is read. Undefined: the request asks for nothing, or for the default. */
interface Parameter {
  readonly feature: RequestFeature
  read(fields: Members, name: string): unknown
}

const number: Parameter['read'] = (fields, name) => fields.number(name)
const string: Parameter['read'] = (fields, name) => fields.string(name)
/** A penalty of zero is none. */
const penalty: Parameter['read'] = (fields, name) => fields.number(name) || undefined

/** By name in a {@link ModelRequest}. */
const parameters = {
  maxOutputTokens: { feature: 'max_output_tokens', read: (fields, name) => fields.count(name, 1) },
  temperature: { feature: 'temperature', read: number },
  topP: { feature: 'top_p', read: number },
  topK: { feature: 'top_k', read: (fields, name) => fields.count(name) },
  presencePenalty: { feature: 'presence_penalty', read: penalty },
  frequencyPenalty: { feature: 'frequency_penalty', read: penalty },
  seed: { feature: 'seed', read: number },
  candidates: {
    feature: 'candidates',
    read: (fields, name) => ((fields.count(name, 1) ?? 1) > 1 ? fields.count(name) : undefined)
  },
  user: { feature: 'user', read: string },
  safetyIdentifier: { feature: 'safety_identifier', read: string },
  serviceTier: {
    feature: 'service_tier',
    read: (fields, name) => (fields.string(name) === 'auto' ? undefined : fields.string(name))
  },
  verbosity: { feature: 'verbosity', read: string },
  promptCacheKey: { feature: 'prompt_cache_key', read: string }
} as const satisfies Partial<Record<keyof ModelRequest, Parameter>>

/** The names of the parameters that a protocol has, or one object of it. They are written in this order. */
export type ParameterNames = Readonly<Partial<Record<keyof typeof parameters, string>>>

/**
 * Reads the parameters that have a name here, and notes those that are given.
 * @throws Untranslatable for one of another type
 */
export function readParameters(fields: Members, names: ParameterNames, request: ModelRequest, losses: Losses): void {
  for (const [key, name] of Object.entries(names) as [keyof typeof parameters, string][]) {
    const { feature, read } = parameters[key]
    const value = read(fields, name)
    if (value === undefined) continue
    Object.assign(request, { [key]: value })
    losses.see(feature)
  }
}

/** Writes the parameters that are given and have a name here. */
export function writeParameters(body: Record<string, unknown>, names: ParameterNames, request: ModelRequest): void {
  for (const [key, name] of Object.entries(names) as [keyof typeof parameters, string][]) {
    if (request[key] !== undefined) body[name] = request[key]
  }
}
