// The public endpoints: which path and method is which operation, in which client protocol.
import type { ProtocolName } from './protocols/index.ts'

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

const byPath = new Map<string, readonly Endpoint[]>([
  ['/v1/chat/completions', [chat]],
  ['/v1/models', [modelList]]
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
  let candidates = byPath.get(path)
  let argument = ''
  if (!candidates && path.startsWith(modelDetail) && path.length > modelDetail.length) {
    try {
      argument = decodeURIComponent(path.slice(modelDetail.length))
    } catch {
      return undefined
    }
    candidates = [modelList]
  }
  if (!candidates) return undefined
  return { endpoint: candidates.find((endpoint) => endpoint.method === method), allow: candidates.map((endpoint) => endpoint.method), argument }
}

/** Stands in for the endpoint of a request that has none, so that its refusal is recorded like any other. */
export const unknownEndpoint: Endpoint = {
  name: 'unknown', method: 'GET', protocol: 'openai-chat', upstreamPath: undefined, billable: false
}
