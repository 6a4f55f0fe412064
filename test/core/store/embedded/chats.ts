// The requests of measuring programs: streamed chats of many keys, as a gateway hands them to a store.
import type { Scope } from '../../../../core/catalogue/caller.ts'
import type { RequestRecord } from '../../../../core/store/requests.ts'
import { record } from './sample.ts'

export const chatPrice = {
  version: 'gpt-5:1',
  perMillion: { input: 1_250_000_000n, cached_input: 125_000_000n, output: 10_000_000_000n }
}

/** Who is charged for the chats of a key, by its number: ten tenants share all keys. No budget is ever spent. */
export function chatScopes(key: number): Scope[] {
  const [tenant, limit] = [`acme-${key % 10}`, 10n ** 15n]
  return [
    { kind: 'tenant', id: `tenant:${tenant}`, budgets: [{ limit, per: 'month' }] },
    { kind: 'project', id: `project:${tenant}/web`, budgets: [{ limit, per: 'month' }] },
    { kind: 'member', id: `member:${tenant}/web/m${key}`, budgets: [{ limit, per: 'day' }] },
    { kind: 'key', id: `key:laptop-${key}`, budgets: [] }
  ]
}

/** The record of a chat of a key. `fields` has at least what it used and cost, and how long it took. */
export function chatRecord(
  requestId: string,
  key: number,
  time: number,
  fields: Partial<RequestRecord>
): RequestRecord {
  return record({
    request_id: requestId,
    time: new Date(time).toISOString(),
    tenant: `acme-${key % 10}`,
    member: `m${key}`,
    key: `laptop-${key}`,
    streamed: true,
    usage_source: 'upstream',
    price_version: chatPrice.version,
    ...fields
  })
}
