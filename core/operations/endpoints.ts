// The public endpoints: which path and method is which operation, in which client protocol.
import type { ProtocolName } from '../protocols/index.ts'

/** An operation of the data listener. */
export interface Endpoint {
  /** The word used in `endpoints:` of keys and channels, in records and as a metric label. */
  readonly name: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** The client's protocol: decides the error envelope and the stream's grammar. */
  readonly protocol: ProtocolName
  /** Below a channel's base address; undefined for what the gateway answers by itself. */
  readonly upstreamPath: string | undefined
  /** Has a body with a model, reserves and is charged. */
  readonly billable: boolean
}

const chat: Endpoint = {
  name: 'chat', method: 'POST', protocol: 'openai-chat', upstreamPath: '/chat/completions', billable: true
}
const modelList: Endpoint = {
  name: 'models', method: 'GET', protocol: 'openai-chat', upstreamPath: undefined, billable: false
}

/** Every endpoint, for documentation and config checks. */
export const endpoints: readonly Endpoint[] = [chat, modelList]

/** What leads to the same place, and the methods that it has. */
interface Place {
  endpoints: readonly Endpoint[]
  allow: readonly string[]
}

const models = place(modelList)
const byPath = new Map<string, Place>([
  ['/v1/chat/completions', place(chat)],
  ['/v1/models', models]
])
const modelDetail = '/v1/models/'

/** What a path leads to. `allow` lists the methods it has; `endpoint` is undefined when the method is none of them. */
export interface Match {
  endpoint: Endpoint | undefined
  allow: readonly string[]
  argument: string
}

/**
 * Finds the endpoint of a method and raw path, once per request; everything later refers to the returned object and
 * never looks at the path again. The argument is percent-decoded after matching, so that an encoded slash stays inside it.
 */
export function matchEndpoint(method: string, path: string): Match | undefined {
  let found = byPath.get(path)
  let argument = ''
  if (!found && path.startsWith(modelDetail) && path.length > modelDetail.length) {
    try {
      argument = decodeURIComponent(path.slice(modelDetail.length))
    } catch {
      return undefined
    }
    found = models
  }
  if (!found) return undefined
  const { endpoints, allow } = found
  return { endpoint: endpoints.find((endpoint) => endpoint.method === method), allow, argument }
}

function place(...endpoints: readonly Endpoint[]): Place {
  return { endpoints, allow: endpoints.map(({ method }) => method) }
}

/** Stands in for the endpoint of a request that has none, so that its refusal is recorded like any other. */
export const unknownEndpoint: Endpoint = {
  name: 'unknown', method: 'GET', protocol: 'openai-chat', upstreamPath: undefined, billable: false
}
