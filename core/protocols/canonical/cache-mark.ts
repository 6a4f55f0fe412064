// Where a conversation is to be kept in a cache: Anthropic's word for it, which chat clients of gateways say too.
import type { Losses } from './losses.ts'
import type { Members } from './members.ts'
import type { CacheMark } from './request.ts'

/** The mark of an object of a request, ready to be spread into what is made of it. */
export function readMark(fields: Members, losses: Losses): { cache?: CacheMark } {
  const cache = fields.json('cache_control')
  if (!cache) return {}
  losses.see('cache_control', fields.at('cache_control'))
  return { cache }
}

/** As it was given. */
export function writeMark({ cache }: { cache?: CacheMark }): { cache_control?: CacheMark } {
  return cache ? { cache_control: cache } : {}
}
