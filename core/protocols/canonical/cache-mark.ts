// Reads and writes Anthropic's `cache_control`, which chat clients send to gateways too.
import type { Losses } from './losses.ts'
import type { Members } from './members.ts'
import type { CacheMark } from './request.ts'

/** The mark of an object in a request, ready to be spread into the part that is made from it. */
export function readMark(fields: Members, losses: Losses): { cache?: CacheMark } {
  const cache = fields.json('cache_control')
  if (!cache) return {}
  losses.see('cache_control', fields.at('cache_control'))
  return { cache }
}

/** The mark as the client gave it. */
export function writeMark({ cache }: { cache?: CacheMark }): { cache_control?: CacheMark } {
  return cache ? { cache_control: cache } : {}
}
