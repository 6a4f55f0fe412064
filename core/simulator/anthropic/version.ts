// The dated versions of Anthropic's API, and the members that the newer one no longer accepts.
import type { IncomingHttpHeaders } from 'node:http'
import { isObject } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import { wrong } from './fields.ts'

const versions = ['2023-06-01', '2026-10-21'] as const

type Version = (typeof versions)[number]

/** @throws Refusal when the request names no version, or an unknown one */
export function versionOf(headers: IncomingHttpHeaders): Version {
  const named = headers['anthropic-version']
  if (named === undefined) throw new Refusal(400, 'anthropic-version: header is required')
  const version = versions.find((known) => known === named)
  if (version === undefined) throw new Refusal(400, `anthropic-version: "${String(named)}" is not a valid version`)
  return version
}

const members = [
  'model',
  'max_tokens',
  'messages',
  'cache_control',
  'container',
  'diagnostics',
  'inference_geo',
  'metadata',
  'output_config',
  'service_tier',
  'speed',
  'stop_sequences',
  'stream',
  'system',
  'temperature',
  'thinking',
  'tool_choice',
  'tools',
  'top_k',
  'top_p'
]
const betaMembers = [
  'billing_policy',
  'compaction',
  'context_management',
  'fallback_credit_token',
  'fallbacks',
  'mcp_servers',
  'output_format',
  'thread'
]
const sampling = ['temperature', 'top_p', 'top_k']

/**
 * Refuses members that the version does not have. Those of a beta are allowed to requests that name one.
 * @throws Refusal
 */
export function checkMembers(body: Fields, headers: IncomingHttpHeaders): void {
  const version = versionOf(headers)
  const newer = version !== '2023-06-01'
  const known = new Set([...members, ...(headers['anthropic-beta'] === undefined ? [] : betaMembers)])
  if (newer) for (const name of sampling) known.delete(name)
  const extra = Object.keys(body).find((name) => !known.has(name))
  if (extra !== undefined) throw wrong(extra, 'Extra inputs are not permitted')
  if (body['thread'] !== undefined && body['thread'] !== null) {
    throw new Refusal(400, 'thread: This model does not hold threads.', {
      more: { details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] } }
    })
  }
  if (newer) checkNewer(body)
}

function checkNewer({ messages }: Fields): void {
  if (!Array.isArray(messages)) return
  for (const [i, message] of messages.entries()) {
    const { role, content } = (isObject(message) ? message : {}) as { role?: unknown; content?: unknown }
    if (!Array.isArray(content)) continue
    for (const [k, block] of content.entries()) {
      const { type, citations } = (isObject(block) ? block : {}) as { type?: unknown; citations?: unknown }
      if (role === 'assistant' && type === 'document')
        throw wrong(`messages.${i}.content.${k}`, '`document` blocks are not allowed in assistant messages')
      if (role === 'user' && type === 'text' && Array.isArray(citations) && citations.length > 0)
        throw wrong(`messages.${i}.content.${k}.citations`, 'Extra inputs are not permitted')
    }
  }
}
