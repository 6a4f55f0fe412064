// The routes of the playground: any request of the data listener, with a key that is named or typed in.
import { GatewayError } from '../../errors.ts'
import { auditEntry } from '../api/audit.ts'
import type { AdminParts, Answer, Call, Carrier, LiveRoute } from '../api/contract.ts'
import { digestOfKey } from '../tenancy/key-digest.ts'
import { tenantOfKey } from '../tenancy/keys.ts'
import { KeyDesk } from '../tenancy/key-desk.ts'
import { secretIn, targetOf } from './handed-on.ts'
import { digestOf } from '../../catalogue/caller.ts'

const byName = '/admin/v1/playground/keys/{key}/{path...}'
const bySecret = '/admin/v1/playground/secret/{path...}'
const named = {
  access: {
    needs: 'manage',
    tenant: { in: 'thing', kind: 'key', of: ({ key }, parts) => tenantOfKey(key!, parts) }
  },
  answers: { 200: '*/*' },
  handle: runByName
} as const satisfies Partial<LiveRoute>
const secret = {
  access: { needs: 'see', tenant: { in: 'nothing' } },
  answers: { 200: '*/*' },
  handle: runBySecret
} as const satisfies Partial<LiveRoute>

/** All routes of the playground. The GET routes take WebSocket handshakes, too. */
export const playgroundRoutes: readonly LiveRoute[] = [
  { method: 'GET', path: byName, summary: 'Reads from the data listener, or opens a session, with a key', ...named },
  { method: 'POST', path: byName, summary: 'Sends a real request to the data listener with a key', ...named },
  { method: 'GET', path: bySecret, summary: 'Reads, or opens a session, with the secret of a key', ...secret },
  { method: 'POST', path: bySecret, summary: 'Sends a real request with the secret of a key', ...secret }
]

/** Runs a request with a key of this name. */
function runByName(call: Call, parts: AdminParts): Answer {
  const key = call.names['key']!
  const { tenant } = new KeyDesk(parts.generations.current.config, parts.store.documents).find(key)
  return { take: (carrier) => run({ digest: digestOfKey(key, parts), name: key, tenant }, call, carrier, parts) }
}

/** Runs a request with the secret that it has. Actors of a tenant may give those of its keys. */
function runBySecret(call: Call, parts: AdminParts): Answer {
  const { by } = call
  return {
    async take(carrier) {
      const typed = secretIn(carrier.request.headers)
      if (typed === undefined)
        throw new GatewayError(
          'missing_field',
          'Send the secret of a key in the header x-sluice-secret, or name a key: /admin/v1/playground/keys/{key}/…',
          { param: 'x-sluice-secret' }
        )
      const digest = digestOf(typed)
      const found = await parts.generations.current.catalogue.findPresented(typed)
      if (by.tenant !== null && found?.tenant !== by.tenant)
        throw new GatewayError('route_not_found', `This is no key of the tenant ${by.tenant}.`, {
          shownCode: 'key_not_found',
          param: 'x-sluice-secret'
        })
      return run({ digest, name: found?.key, tenant: found?.tenant ?? null }, call, carrier, parts)
    }
  }
}

/** `name` is undefined for a secret of no key, with which the request is refused as that of any client. */
interface Chosen {
  digest: Buffer
  name: string | undefined
  tenant: string | null
}

async function run(
  { digest, name, tenant }: Chosen,
  call: Call,
  carrier: Carrier,
  { store, playground }: AdminParts
): Promise<void> {
  const { method } = carrier.request
  const [path] = targetOf(carrier.request).split('?', 1)
  if (name !== undefined && (method !== 'GET' || carrier.socket)) {
    const after = { method, path: path!.slice(0, 200) }
    const entry = auditEntry(call.by, 'playground.run', { kind: 'key', id: name, tenant }, undefined, after)
    await store.documents.change([], entry)
  }
  playground!.run(digest, call.by, carrier)
}
