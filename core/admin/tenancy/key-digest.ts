// Finds the digest of a key by its name, for what operators do with a key whose secret they do not have.
import { suggestion } from '../../options/suggest.ts'
import { keyDocuments } from '../../tenancy/stored.ts'
import type { OfflineParts } from '../api/contract.ts'
import { invalidField, sentence, shown } from '../api/query.ts'

/**
 * The SHA-256 of a key by its name, also of one that was revoked: whoever uses it sees why that is refused.
 * @throws GatewayError `invalid_field` when there is no such key
 */
export function digestOfKey(name: string, { generations, store }: Pick<OfflineParts, 'generations' | 'store'>): Buffer {
  const { keys } = generations.current.config
  const declared = keys.find((key) => key.name === name)
  if (declared) return Buffer.from(declared.sha256)
  const stored = store.documents.find(keyDocuments, name)
  if (stored?.secrets[0]) return Buffer.from(stored.secrets[0].sha256, 'hex')
  const known = [...keys, ...store.documents.all(keyDocuments)].map((key) => key.name)
  throw invalidField('key', sentence(`there is no key ${shown(name)}${suggestion(name, known)}`))
}
