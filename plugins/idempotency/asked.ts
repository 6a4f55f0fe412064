// What was asked, and under which name: digests of a request and of its Idempotency-Key.
import { createHash, hash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { GatewayError } from '../../core/contract/contract.ts'
import type { Exchange } from '../../core/contract/contract.ts'
import type { Caller } from '../../core/catalogue/caller.ts'

/** Bytes that are digested before others have their turn: less than a few milliseconds. */
const sliceBytes = 1024 * 1024

/** The one key of a request, as it was sent. @throws GatewayError `invalid_field` for what is none */
export function keyOf(header: string | string[]): string {
  if (typeof header === 'string' && /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/.test(header)) return header
  throw new GatewayError(
    'invalid_field',
    'The header Idempotency-Key must be given once, with 1 to 255 printable ASCII characters.',
    { param: 'Idempotency-Key' }
  )
}

/** Unique over all API keys: what one was answered no other is told. Names of tenants and keys have no zero byte. */
export function idOf({ tenant, key }: Caller, name: string): Buffer {
  return hash('sha256', `${tenant}\0${key}\0${name}`, 'buffer')
}

/** Method, address and body. The boundary of a form is left out, as clients take another for each try. */
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
