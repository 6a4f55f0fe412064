// Seals the cursors of lists for actors of one tenant: numbers in them would tell how much there is of others.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { invalidField, shown } from '../api/query.ts'

/** A list that was begun before a restart is begun anew. */
const key = randomBytes(32)
const [ivBytes, tagBytes] = [12, 16]

/**
 * Makes a cursor that tells nothing, for one list of one tenant: `place` says which. Another list would say what it
 * does not understand, and so what is in it. Two of the same place are different.
 */
export function sealed(cursor: string, place: string): string {
  const iv = randomBytes(ivBytes)
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(place))
  const body = Buffer.concat([cipher.update(cursor), cipher.final()])
  return Buffer.concat([iv, cipher.getAuthTag(), body]).toString('base64url')
}

/**
 * The cursor that was sealed.
 * @throws GatewayError when it was not, or for another place, or before a restart
 */
export function unsealed(text: string, place: string): string {
  const bytes = Buffer.from(text, 'base64url')
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes })
    decipher.setAAD(Buffer.from(place)).setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes))
    return Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]).toString()
  } catch {
    throw invalidField(
      'cursor',
      `cursor is ${shown(text)}: it must be the next of an earlier page of this list, since the gateway started`
    )
  }
}
