// What the gateway keeps for clients in place of an upstream: encrypted, each with its owner, for a while, and no more
// than so much.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { StateSettings } from '../catalogue/settings.ts'
import { GatewayError } from '../errors.ts'
import type { Work, Works } from './works.ts'
import type { Owner } from './owner.ts'
import { steadyNow } from '../watchdog/steady-time.ts'

/** What is known beside the value, which nobody can read without the key. */
export interface Label extends Owner {
  readonly id: string
  readonly model: string
  readonly requestId: string
}

/** What may be asked of a value without reading it. */
export interface Outline {
  /** Bytes and tokens of what a request takes in with it. */
  readonly length: number
  readonly tokens: number
  /** What is in it, by ids of its own, and the bytes of each. */
  readonly parts: Readonly<Record<string, number>>
}

/** What is found of a value before it is read. */
export interface Kept {
  readonly work: Work
  readonly outline: Outline
}

/** The kind of work that a value is, and that which leads from a part of one to the whole. */
export const keptKind = 'kept'
const partKind = 'kept-part'
const ivBytes = 12
const tagBytes = 16
/** That a row takes, about: of a value, and of each of its parts. */
const rowBytes = 1000
/** How many are looked up at a time that may go, and to what share of its bounds the room is brought then. */
const mostAtOnce = 64
const roomy = 15 / 16

/** The values of all tenants. */
export class Vault {
  readonly #works: Works
  #settings: StateSettings
  /** Derived from a secret, which takes a moment. */
  #key: { secret: string; bytes: Buffer } | undefined
  /** Room is made for one after the other. */
  #making: Promise<unknown> = Promise.resolve()
  /** Has room, and is not among the works yet. */
  readonly #coming = new Set<{ tenant: string; bytes: number; over: Promise<void> }>()
  /** How many have come, or failed to. */
  #arrived = 0

  constructor(works: Works, settings: StateSettings) {
    this.#works = works
    this.#settings = settings
  }

  /** Goes by other settings from now on: those of a file that was read again. */
  use(settings: StateSettings): void {
    this.#settings = settings
  }

  /** Bytes of one conversation. */
  get largest(): number {
    return this.#settings.largest
  }

  /** Milliseconds for which a value is kept. */
  get age(): number {
    return this.#settings.keep
  }

  /** Resolves when it is on disk. What was kept longest ago makes room: of its tenant, or of whoever keeps most. */
  async keep(label: Label, value: unknown, outline: Outline): Promise<void> {
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

  /**
   * Keeps the value of work that has a place of its own; what is returned is to be put with it. Resolves when it is on
   * disk.
   * @throws GatewayError `overloaded` when there is no room and nothing that can go
   */
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
      // Whoever has what is returned puts it in the same turn of the loop.
      setImmediate(counted)
    }
    return { bytes, details: { ...outline } }
  }

  /**
   * Lets go of what was kept longest ago, and of more than has to go: else the next one would have to wait for that
   * too. What is returned is to be called when the bytes count among the works, or do not come.
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
        // What is on its way, or has come meanwhile, may go as soon as it is there.
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

  /** What is known of a value; undefined when there is none, it is another's, or too old. */
  async find(owner: Owner, id: string): Promise<Kept | undefined> {
    const work = await this.#works.find(owner, id)
    return work?.kind === keptKind ? { work, outline: outlineOf(work) } : undefined
  }

  /** The value that something is a part of, with the bytes of that. */
  async findWhole(owner: Owner, part: string): Promise<{ id: string; length: number } | undefined> {
    const work = await this.#works.find(owner, part)
    if (work?.kind !== partKind) return undefined
    const { in: id, length } = work.details as { in: string; length: number }
    return { id, length }
  }

  /** The value; undefined when it is gone, or was kept with another key. */
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

  /** Resolves when it is gone from the disk. */
  forget({ work }: Kept): Promise<void> {
    return this.#forget(work)
  }

  async #forget(work: Work): Promise<void> {
    const parts = Object.keys(outlineOf(work).parts).map(async (id) => {
      const part = await this.#works.find(work, id)
      // An upstream may give one id twice: then it is the later one's.
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

/** A value that was moved to another owner or id cannot be read there. */
function nameOf({ tenant, project }: Owner, id: string): Buffer {
  return Buffer.from(`${tenant}\n${project}\n${id}`)
}
