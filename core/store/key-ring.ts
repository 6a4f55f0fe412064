// The key store: holds all keys issued at run time in memory, and leaves it to the writer to save them.
import { maxNano, smaller } from './cell.ts'
import type { KeyStore, StoredKey } from './keys.ts'
import type { Value } from './sqlite.ts'
import type { Period } from './window.ts'
import type { Writer } from './writer.ts'

/** The keys of one store. */
export class KeyRing implements KeyStore {
  readonly #writer: Writer
  readonly #byName = new Map<string, StoredKey>()
  readonly #byHash = new Map<string, StoredKey>()

  readonly #now: () => number

  /** `rows` are those of the table key, with integers as bigint. `now` gives the time of revocations. */
  constructor(writer: Writer, rows: readonly Record<string, Value>[], now: () => number) {
    this.#writer = writer
    this.#now = now
    for (const row of rows) this.#keep(fromRow(row))
  }

  all(): readonly StoredKey[] {
    return [...this.#byName.values()]
  }

  find(sha256: Buffer): StoredKey | undefined {
    return this.#byHash.get(sha256.toString('latin1'))
  }

  async create(key: StoredKey): Promise<void> {
    const other = this.#byName.get(key.name) ?? this.find(key.sha256)
    if (other)
      throw new Error(
        `the key ${other.name} exists already: choose another ${other.name === key.name ? 'name' : 'secret'}`
      )
    for (const time of [key.created, key.expires ?? 0]) {
      if (!Number.isSafeInteger(time))
        throw new RangeError(`the key ${key.name} has the time ${time}: times are whole milliseconds`)
    }
    this.#writer.admit()
    this.#keep(key)
    await this.#write(key)
  }

  async revoke(name: string): Promise<boolean> {
    const key = this.#byName.get(name)
    if (!key || key.revoked !== undefined) return false
    const revoked = { ...key, revoked: this.#now() }
    this.#keep(revoked)
    await this.#write(revoked)
    return true
  }

  #keep(key: StoredKey): void {
    this.#byName.set(key.name, key)
    this.#byHash.set(key.sha256.toString('latin1'), key)
  }

  #write(key: StoredKey): Promise<void> {
    const { draft } = this.#writer
    draft.keys.push(...toRow(key))
    draft.count()
    this.#writer.wake()
    return draft.durable
  }
}

function toRow({
  name,
  sha256,
  hint,
  tenant,
  project,
  member,
  models,
  endpoints,
  limits,
  budget,
  expires,
  created,
  revoked
}: StoredKey): Value[] {
  return [
    name,
    sha256,
    hint,
    tenant,
    project ?? null,
    member ?? null,
    JSON.stringify(models),
    JSON.stringify(endpoints),
    JSON.stringify(limits),
    budget ? smaller(budget.limit, maxNano) : null,
    budget?.per ?? null,
    expires ?? null,
    created,
    revoked ?? null
  ]
}

function fromRow(row: Record<string, Value>): StoredKey {
  const text = (name: string): string | undefined => (row[name] as string | null) ?? undefined
  const time = (name: string): number | undefined => (row[name] === null ? undefined : Number(row[name]))
  const per = text('budget_per') as Period | undefined
  return {
    name: text('name')!,
    sha256: Buffer.from(row['sha256'] as Uint8Array),
    hint: text('hint')!,
    tenant: text('tenant')!,
    project: text('project'),
    member: text('member'),
    models: JSON.parse(text('models')!) as string[],
    endpoints: JSON.parse(text('endpoints')!) as string[],
    limits: JSON.parse(text('limits')!) as StoredKey['limits'],
    budget: per && { limit: row['budget_limit'] as bigint, per },
    expires: time('expires'),
    created: time('created')!,
    revoked: time('revoked')
  }
}
