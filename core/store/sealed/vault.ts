// The vault over the work of any store: each value is encrypted, and kept as the result of work that has ended.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { StateSettings } from '../../catalogue/settings.ts'
import { GatewayError } from '../../errors.ts'
import { steadyNow } from '../../watchdog/steady-time.ts'
import type { Owner } from '../owner.ts'
import { keptKind } from '../vault.ts'
import type { Kept, Label, Outline, Vault } from '../vault.ts'
import type { Work, Works } from '../works.ts'

/** The kind of work that stands for a part and leads to the whole value. */
const partKind = 'kept-part'
const ivBytes = 12
const tagBytes = 16
/** The approximate number of bytes of a row. A value has one, and so has each of its parts. */
const rowBytes = 1000
/** How many values are looked up at a time to be deleted, and down to what share of the bounds values are deleted. */
const mostAtOnce = 64
const roomy = 15 / 16

/** A vault whose values are the results of work of a store, encrypted before the store gets them. */
export class SealedVault implements Vault {
  readonly #works: Works
  #settings: StateSettings
  /** The derived key with its secret. It is kept because deriving it takes a moment. */
  #key: { secret: string; bytes: Buffer } | undefined
  /** The last call of `#makeRoom`: calls run one after the other. */
  #making: Promise<unknown> = Promise.resolve()
  /** The values that have got room and are not counted among the work yet. */
  readonly #coming = new Set<{ tenant: string; bytes: number; over: Promise<void> }>()
  /** How many of those were stored or failed since the start. */
  #arrived = 0

  constructor(works: Works, settings: StateSettings) {
    this.#works = works
    this.#settings = settings
  }

  /** Uses new settings from now on. It is called after a reload of the configuration. */
  use(settings: StateSettings): void {
    this.#settings = settings
  }

  get largest(): number {
    return this.#settings.largest
  }

  get age(): number {
    return this.#settings.keep
  }

  async put(label: Label, value: unknown, outline: Outline): Promise<void> {
    const { id, tenant, project, model, requestId } = label
    const now = steadyNow()
    const work: Work = {
      id,
      kind: keptKind,
      tenant,
      project,
      requestId,
      model,
      channel: null,
      account: '',
      upstreamId: null,
      status: 'succeeded',
      progress: 100,
      created: now,
      updated: now,
      ended: now,
      deadline: now,
      expires: now + this.age,
      error: null,
      usage: null,
      details: {},
      record: null
    }
    await this.#works.put({ ...work, ...(await this.fill(work, value, outline)) })
  }

  async fill(work: Work, value: unknown, outline: Outline): Promise<Required<Pick<Work, 'bytes' | 'details'>>> {
    const iv = randomBytes(ivBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#secret(), iv).setAAD(nameOf(work, work.id))
    const sealed = [cipher.update(JSON.stringify(value)), cipher.final()]
    const file = Buffer.concat([iv, cipher.getAuthTag(), ...sealed])
    const parts = Object.entries(outline.parts)
    const bytes = file.length + rowBytes * (1 + parts.length)
    const making = this.#making.then(ignore, ignore).then(() => this.#makeRoom(work.tenant, bytes - (work.bytes ?? 0)))
    this.#making = making
    const counted = await making
    try {
      await this.#works.keepResult(work, file)
      const now = steadyNow()
      const { bytes: _counted, ...rest } = work
      const part: Work = {
        ...rest,
        kind: partKind,
        status: 'succeeded',
        ended: now,
        expires: now + (work.keep ?? this.age),
        record: null
      }
      await Promise.all(parts.map(([id, length]) => this.#works.put({ ...part, id, details: { in: work.id, length } })))
    } finally {
      // The caller puts the work in the same tick of the event loop, so it is counted among the work by the next one.
      setImmediate(counted)
    }
    return { bytes, details: { ...outline } }
  }

  /**
   * Makes room for `bytes` by deleting the oldest values, and more than needed, so that the next value need not wait
   * too. Returns a function to call when the bytes count among the work, or when storing them failed.
   */
  async #makeRoom(tenant: string, bytes: number): Promise<() => void> {
    const { room } = this.#works
    const settings = this.#settings
    const coming = (whose?: string): number =>
      [...this.#coming].reduce(
        (sum, one) => (whose === undefined || one.tenant === whose ? sum + one.bytes : sum),
        bytes
      )
    const crowded = (share: number): string | undefined => {
      if (room.of(tenant) + coming(tenant) > settings.of_tenant * share) return tenant
      return room.total + coming() > settings.size * share ? (room.largest ?? tenant) : undefined
    }
    for (let whose = crowded(1); whose !== undefined; whose = crowded(roomy)) {
      const arrived = this.#arrived
      const oldest = await this.#works.oldest(whose, mostAtOnce)
      if (oldest.length === 0) {
        if (crowded(1) === undefined) break
        // A value that is being stored can be deleted once it is there, so wait for it and look again.
        const [next] = this.#coming
        await next?.over
        if (this.#arrived !== arrived) continue
        throw new GatewayError('overloaded', 'There is no room for more responses that are kept. Try again later.', {
          retryAfterMs: 5000
        })
      }
      for (const work of oldest) {
        await this.#forget(work)
        if (crowded(roomy) !== whose) break
      }
    }
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const one = { tenant, bytes, over }
    this.#coming.add(one)
    return () => {
      this.#coming.delete(one)
      this.#arrived++
      resolve()
    }
  }

  async find(owner: Owner, id: string): Promise<Kept | undefined> {
    const work = await this.#works.find(owner, id)
    return work?.kind === keptKind ? { work, outline: outlineOf(work) } : undefined
  }

  async findWhole(owner: Owner, part: string): Promise<{ id: string; length: number } | undefined> {
    const work = await this.#works.find(owner, part)
    if (work?.kind !== partKind) return undefined
    const { in: id, length } = work.details as { in: string; length: number }
    return { id, length }
  }

  async ofRequest(owner: Owner, requestId: string, from: number, to: number): Promise<Kept | undefined> {
    const of = { requestId, from, to }
    const { page } = await this.#works.list({
      ...owner,
      kind: keptKind,
      after: undefined,
      limit: 1,
      newestFirst: true,
      of
    })
    return page[0] && { work: page[0], outline: outlineOf(page[0]) }
  }

  async read({ work }: Kept): Promise<unknown> {
    const bytes = await this.#works.result(work)
    if (!bytes) return undefined
    try {
      const decipher = createDecipheriv('aes-256-gcm', this.#secret(), bytes.subarray(0, ivBytes)).setAAD(
        nameOf(work, work.id)
      )
      decipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes))
      return JSON.parse(
        Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]).toString('utf8')
      ) as unknown
    } catch {
      return undefined
    }
  }

  forget({ work }: Kept): Promise<void> {
    return this.#forget(work)
  }

  async #forget(work: Work): Promise<void> {
    const parts = Object.keys(outlineOf(work).parts).map(async (id) => {
      const part = await this.#works.find(work, id)
      // An upstream may give the same id twice. Then the part belongs to the later value.
      if (part?.kind === partKind && part.details['in'] === work.id) await this.#works.forget(part)
    })
    await Promise.all([this.#works.forget(work), ...parts])
  }

  #secret(): Buffer {
    const { key: secret } = this.#settings
    if (this.#key?.secret !== secret)
      this.#key = { secret, bytes: Buffer.from(hkdfSync('sha256', secret, '', 'sluice/vault', 32)) }
    return this.#key.bytes
  }
}

function ignore(): void {}

function outlineOf({ details }: Work): Outline {
  const { length = 0, tokens = 0, parts = {} } = details as Partial<Outline>
  return { length, tokens, parts }
}

/**
 * The additional authenticated data of the encryption, so that a value moved to another owner or id cannot be decrypted
 * there.
 */
function nameOf({ tenant, project }: Owner, id: string): Buffer {
  return Buffer.from(`${tenant}\n${project}\n${id}`)
}
