// Removes the gateway's own signatures from a Responses request that is passed on without translation.
import { isSealed } from '../canonical/proofs.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'

/** The input without thoughts of another provider's model. Undefined when it holds none. */
export function withoutSealed({ input }: JsonObject): { key: string; value: unknown } | undefined {
  if (!Array.isArray(input)) return undefined
  const value = input.filter((item) => !isSealed(asText(asObject(item)?.['encrypted_content'])))
  return value.length === input.length ? undefined : { key: 'input', value }
}
