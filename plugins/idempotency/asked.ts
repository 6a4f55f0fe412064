// Digests of a request and of its Idempotency-Key.
import { createHash, hash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { GatewayError } from '../../core/contract/contract.ts'
import type { Exchange } from '../../core/contract/contract.ts'
import type { Caller } from '../../core/catalogue/caller.ts'

/** The bytes that are digested in one turn of the event loop, which takes a few milliseconds at most. */
const sliceBytes = 1024 * 1024

/**
 * The Idempotency-Key of a request, as it was sent.
 * @throws GatewayError `invalid_field` for an invalid key
 */
export function keyOf(header: string | string[]): string {
  if (typeof header === 'string' && /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/.test(header)) return header
  throw new GatewayError(
    'invalid_field',
    'The header Idempotency-Key must be given once, with 1 to 255 printable ASCII characters.',
    { param: 'Idempotency-Key' }
  )
}

/**
 * The id of a name of one API key. It is unique over all API keys, so no key gets the answer of another. The names of
 * tenants and keys contain no zero byte.
 */
export function idOf({ tenant, key }: Caller, name: string): Buffer {
  return hash('sha256', `${tenant}\0${key}\0${name}`, 'buffer')
}

/**
 * A digest of method, address and body. It leaves out the boundary of a form, because clients choose another one for
 * each try.
 */
export async function askedBy({ request, body }: Exchange): Promise<Buffer> {
  const digest = createHash('sha256')
  const query = new URLSearchParams(request.query)
  query.delete('key')
  digest.update(`${request.method} ${request.path}?${query.toString()}\n`)
  if (body.form) {
    for await (const bytes of body.form.content()) digest.update(bytes)
    return digest.digest()
  }
  for (let at = 0; at < body.bytes.length; at += sliceBytes) {
    if (at > 0) await turn()
    digest.update(body.bytes.subarray(at, at + sliceBytes))
  }
  return digest.digest()
}
