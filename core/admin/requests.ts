// The request log: what was asked, by whom, how it ended and what it cost.
import type { Route } from './contract.ts'
import { limitOf, pageQuery } from './page.ts'

export const requestRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/admin/v1/requests',
    query: ['request_id', 'tenant', 'key', 'model', 'since', ...pageQuery],
    handle: async ({ query }, { store }) => {
      const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined))
      return { body: await store.requests.list({ ...given, limit: limitOf(query) }) }
    }
  }
]
