// What the gateway keeps for clients in place of an upstream: encrypted, each with its owner, and for a while.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { StateSettings } from '../catalogue/settings.ts'
import type { Work, WorkOwner, Works } from './works.ts'

/** What is known beside the value, which nobody can read without the key. */
export interface Label extends WorkOwner {
  readonly id: string
  readonly model: string
  readonly requestId: string
}

const kind = 'kept'
const ivBytes = 12
const tagBytes = 16

/** The values of all tenants. */
export class Vault {
  readonly #works: Works
  readonly #settings: () => StateSettings
  /** Derived from a secret, which takes a moment. */
  #key: { secret: string; bytes: Buffer } | undefined

  constructor(works: Works, settings: () => StateSettings) {
    this.#works = works
    this.#settings = settings
  }

  /** Bytes of one conversation. */
  get largest(): number {
    return this.#settings().largest
  }

  /** Resolves when it is on disk. */
  async keep(label: Label, value: unknown): Promise<void> {
    const { id, tenant, project, model, requestId } = label
    const now = Date.now()
    const iv = randomBytes(ivBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#secret(), iv).setAAD(nameOf(label, id))
    const sealed = Buffer.concat([cipher.update(JSON.stringify(value)), cipher.final()])
    const work: Work = {
      id, kind, tenant, project, requestId, model, channel: null, account: '', upstreamId: null, status: 'succeeded', progress: 100, created: now, updated: now,
      ended: now, deadline: now, expires: now + this.#settings().keep, error: null, usage: null, details: {}, record: null
    }
    await this.#works.keepResult(work, Buffer.concat([iv, cipher.getAuthTag(), sealed]))
    await this.#works.put(work)
  }

  /** Undefined when there is none, it is another's, too old, or was kept with another key. */
  async find(owner: WorkOwner, id: string): Promise<unknown> {
    const work = await this.#find(owner, id)
    const bytes = work && (await this.#works.result(work))
    if (!bytes) return undefined
    try {
      const decipher = createDecipheriv('aes-256-gcm', this.#secret(), bytes.subarray(0, ivBytes)).setAAD(nameOf(owner, id))
      decipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes))
      return JSON.parse(Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]).toString('utf8')) as unknown
    } catch {
      return undefined
    }
  }

  /** Resolves when it is gone from the disk; false when there was none. */
  async forget(owner: WorkOwner, id: string): Promise<boolean> {
    const work = await this.#find(owner, id)
    if (work) await this.#works.forget(work)
    return work !== undefined
  }

  async #find(owner: WorkOwner, id: string): Promise<Work | undefined> {
    const work = await this.#works.find(owner, id)
    return work?.kind === kind ? work : undefined
  }

  #secret(): Buffer {
    const { key: secret } = this.#settings()
    if (this.#key?.secret !== secret) this.#key = { secret, bytes: Buffer.from(hkdfSync('sha256', secret, '', 'sluice/vault', 32)) }
    return this.#key.bytes
  }
}

/** A value that was moved to another owner or id cannot be read there. */
function nameOf({ tenant, project }: WorkOwner, id: string): Buffer {
  return Buffer.from(`${tenant}\n${project}\n${id}`)
}
