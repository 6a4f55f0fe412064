// Seals what leaves the gateway for a while and comes back: cursors of lists, and sign-ins on their way. All gateways
// of a store open what one of them has sealed, also after a restart.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { changeOf, documentKind } from '../../store/documents.ts'
import type { Documents } from '../../store/documents.ts'

/** The key, as base64url. Whoever can read the store may know it: it keeps things from those who ask, not from that. */
const keyDocuments = documentKind<{ key: string }>('seal')
const name = 'admin'
const [keyBytes, ivBytes, tagBytes] = [32, 12, 16]

/** The seal of a store. */
export class Seal {
  readonly #documents: Pick<Documents, 'find' | 'change'>

  constructor(documents: Pick<Documents, 'find' | 'change'>) {
    this.#documents = documents
  }

  /**
   * Makes the key where the store has none. Call it before anything is sealed.
   * @throws GatewayError `billing_unavailable` when the store cannot take it
   */
  async ready(): Promise<void> {
    if (this.#key) return
    try {
      await this.#documents.change([changeOf(keyDocuments, name, { key: randomBytes(keyBytes).toString('base64url') })])
    } catch (error) {
      // Another gateway has made one at the same moment.
      if (!this.#key) throw error
    }
  }

  /**
   * Seals a text for one place. It cannot be opened for another one, which would say what it does not understand, and
   * so what is in it. Two of the same text are different.
   */
  close(text: string, place: string): string {
    const iv = randomBytes(ivBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#key!, iv).setAAD(Buffer.from(place))
    const body = Buffer.concat([cipher.update(text), cipher.final()])
    return Buffer.concat([iv, cipher.getAuthTag(), body]).toString('base64url')
  }

  /** The text that was sealed for this place; undefined when it was not. */
  open(sealed: string, place: string): string | undefined {
    const bytes = Buffer.from(sealed, 'base64url')
    const key = this.#key
    if (!key || bytes.length < ivBytes + tagBytes) return undefined
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes })
    decipher.setAAD(Buffer.from(place)).setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes))
    try {
      return Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]).toString()
    } catch {
      return undefined
    }
  }

  get #key(): Buffer | undefined {
    const found = this.#documents.find(keyDocuments, name)
    return found && Buffer.from(found.key, 'base64url')
  }
}
