// Finds the protocol and the endpoint of a request.
import type { IncomingHttpHeaders } from 'node:http'
import type { Endpoint, Protocol } from './endpoint.ts'
import { anthropic } from './anthropic/anthropic.ts'
import { files } from './files.ts'
import { gemini } from './gemini/gemini.ts'
import { openai } from './openai/openai.ts'
import { Refusal } from './refusal.ts'
import { reranking } from './rerank/rerank.ts'
import { tasks } from './tasks/tasks.ts'

/** In order: the first protocol that claims a request answers it. The last one claims everything. */
const protocols: readonly Protocol[] = [files, tasks, ...reranking, gemini, anthropic, openai]

/** The protocol that answers a request, also when it refuses it. */
export function protocolOf(path: string, headers: IncomingHttpHeaders, query: URLSearchParams): Protocol {
  return protocols.find((protocol) => protocol.claims(path, headers, query))!
}

/** An endpoint, and the values of the parameters in its path. */
export interface Route {
  endpoint: Endpoint
  params: Record<string, string>
}

interface Pattern {
  endpoint: Endpoint
  matches: RegExp
}

const noParams = {}
/** For each protocol its endpoints with literal paths, and those with parameters. */
const tables = new Map(protocols.map((protocol) => [protocol, tableOf(protocol.endpoints)]))

function tableOf(endpoints: readonly Endpoint[]): { exact: Map<string, Endpoint[]>; patterns: Pattern[] } {
  const [open, exact] = [
    endpoints.filter(({ path }) => path.includes('{')),
    endpoints.filter(({ path }) => !path.includes('{'))
  ]
  return {
    exact: Map.groupBy(exact, ({ path }) => path),
    patterns: open.map((endpoint) => ({ endpoint, matches: patternOf(endpoint.path) }))
  }
}

function patternOf(path: string): RegExp {
  const source = path.replace(
    /\{(\w+)(\+?)\}/g,
    (_, name: string, more: string) => `(?<${name}>${more ? '.+' : '[^/]+'})`
  )
  return new RegExp(`^${source}$`)
}

/** @throws Refusal 404 or 405 */
export function routeOf(protocol: Protocol, method: string, path: string): Route {
  const { exact, patterns } = tables.get(protocol)!
  const known = exact.get(path) ?? []
  const endpoint = known.find((candidate) => candidate.method === method)
  if (endpoint) return { endpoint, params: noParams }
  const open = patterns.filter(({ matches }) => matches.test(path))
  const pattern = open.find((candidate) => candidate.endpoint.method === method)
  if (pattern) return { endpoint: pattern.endpoint, params: decoded(pattern.matches.exec(path)!.groups!) }
  if (known.length + open.length > 0)
    throw new Refusal(405, `Not allowed to ${method} on ${path}.`, { code: 'method_not_supported' })
  throw new Refusal(404, `Invalid URL (${method} ${path})`)
}

function decoded(groups: Record<string, string>): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(groups).map(([name, value]) => [name, decodeURIComponent(value)]))
  } catch {
    throw new Refusal(404, 'Invalid URL: it has a % that is followed by no UTF-8.')
  }
}
