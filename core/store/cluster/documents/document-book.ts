// The documents of all gateways: each has them as a whole in memory, and PostgreSQL decides about changes.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../../../errors.ts'
import { unavailable, unfound } from '../unavailable.ts'
import { auditMembers } from '../../documents.ts'
import type {
  AuditEntry,
  AuditQuery,
  DocumentChange,
  DocumentKind,
  Documents,
  StoredAuditEntry
} from '../../documents.ts'
import type { Database } from '../database/database.ts'
import { DatabaseFault } from '../database/fault.ts'
import { numbersOf } from '../database/listener.ts'
import { search } from '../database/search.ts'
import { plain } from '../database/text.ts'
import { Shelves } from './shelves.ts'
import type { DocumentRow, Head } from './shelves.ts'

/** A poll comes every half to whole second, so that no notification is needed. */
const pollEvery = 750
/** How long a change is tried whose answer was lost, in milliseconds. */
const changeWithin = 10_000
/** How often what is over is removed, in milliseconds. Every gateway does it. */
const sweepEvery = 600_000
/** How long a search of the audit log may take, in milliseconds. */
const searchWithin = { deadline: 30_000 }
/** The most notes that wait. */
const mostNotes = 10_000

/** A change that a gateway notes for itself, and the version that it was made on. */
interface Note extends DocumentChange {
  readonly base: bigint
}

/** The documents as one gateway has them. */
export class DocumentBook implements Documents {
  readonly #database: Database
  readonly #shelves: Shelves
  readonly #watchers = new Set<(changes: readonly DocumentChange[]) => void>()
  /** The notes that were not sent, by kind and id. */
  #notes = new Map<string, Note>()
  #noting: Promise<void> | undefined
  /** The notes under way. Resolves with the documents whose notes were taken; never rejects. */
  #underWay: Promise<TakenNotes> | undefined
  readonly #stopping = new AbortController()
  readonly #loops: Promise<void>[]
  readonly #unlisten: () => void
  /** The read under way, and the one after it. */
  #reading: Promise<void> | undefined
  #next: Promise<void> | undefined
  /** When the documents were last those of the database, by the monotonic clock. */
  #current = performance.now()
  #swept = performance.now()

  private constructor(database: Database) {
    this.#database = database
    this.#shelves = new Shelves()
    // Whoever listens first and reads then misses nothing.
    this.#unlisten = database.listener.on('sluice_documents', (payload) => {
      const [version] = numbersOf(payload) ?? []
      if (version === undefined || version > this.#shelves.seen.version) void this.#catchUp().catch(() => {})
    })
    this.#loops = [this.#poll()]
  }

  /**
   * Reads all documents, and follows what other gateways change until it is closed.
   * @throws DatabaseFault when they cannot be read
   */
  static async open(database: Database): Promise<DocumentBook> {
    const book = new DocumentBook(database)
    try {
      await book.#catchUp()
      return book
    } catch (error) {
      await book.close()
      throw error
    }
  }

  /** Resolves when all is here that was committed before. @throws DatabaseFault */
  follow(): Promise<void> {
    return this.#catchUp()
  }

  /** For how many milliseconds nobody has known whether other gateways changed something. */
  get behind(): number {
    return performance.now() - this.#current
  }

  all<T extends object>({ name }: DocumentKind<T>): readonly T[] {
    return this.#shelves.all(name) as T[]
  }

  find<T extends object>({ name }: DocumentKind<T>, id: string): T | undefined {
    return this.#shelves.find(name, id) as T | undefined
  }

  async change(changes: readonly DocumentChange[], entry?: AuditEntry): Promise<void> {
    // What is known here by now is what this change was decided on: a note that was not sent is replaced by it.
    const names = changes.map(nameOf)
    const from = this.#shelves.seen
    const bases = changes.map(({ kind, id }) => this.#shelves.versionOf(kind, id))
    const replaced = names.flatMap((name) => this.#notes.get(name) ?? [])
    for (const name of names) this.#notes.delete(name)
    const taken = await this.#underWay
    const based = changes.map((change, i) => {
      const own = taken?.get(names[i]!)
      return { ...change, base: own?.base === bases[i] ? own!.version : bases[i]! }
    })
    try {
      await this.#send(based, entry, false, from)
    } catch (error) {
      for (const note of isConflict(error) ? replaced.filter(isNew) : replaced)
        if (!this.#notes.has(nameOf(note))) this.#notes.set(nameOf(note), note)
      if (replaced.length > 0) this.#noting ??= this.#sendNotes()
      throw error
    }
  }

  note(changes: readonly DocumentChange[]): void {
    if (this.#notes.size >= mostNotes) throw unavailable(undefined)
    for (const change of changes) {
      const base = this.#notes.get(nameOf(change))?.base ?? this.#shelves.versionOf(change.kind, change.id)
      this.#notes.set(nameOf(change), { ...change, base })
      this.#shelves.note(change)
    }
    this.#tell(changes)
    this.#noting ??= this.#sendNotes()
  }

  watch(tell: (changes: readonly DocumentChange[]) => void): () => void {
    this.#watchers.add(tell)
    return () => void this.#watchers.delete(tell)
  }

  async audit(
    { before, since, until, members = {}, limit }: AuditQuery,
    left?: AbortSignal
  ): Promise<readonly StoredAuditEntry[]> {
    const named = auditMembers.filter((name) => members[name] !== undefined)
    const conditions = named.map((name, i) => `and ${name} = $${i + 5}`).join(' ')
    const values = [before ?? null, since ?? null, until ?? null, limit, ...named.map((name) => plain(members[name]!))]
    const rows = await search<{ seq: bigint; time: bigint; json: string; hash: string }>(
      this.#database.searches,
      `select seq, time, json, hash from sluice.audit
       where ($1::bigint is null or seq < $1) and ($2::bigint is null or time >= $2)
         and ($3::bigint is null or time <= $3) ${conditions}
       order by seq desc limit $4`,
      values,
      { ...searchWithin, left }
    ).catch(unfound)
    return rows.map(({ seq, time, json, hash }) => ({
      seq: Number(seq),
      time: Number(time),
      entry: JSON.parse(json) as AuditEntry,
      hash
    }))
  }

  /** Sends the notes, and stops following. */
  async close(): Promise<void> {
    this.#unlisten()
    this.#stopping.abort()
    await Promise.all(this.#loops)
    await this.#noting
    await (this.#next ?? this.#reading)?.catch(() => {})
  }

  /**
   * Has changes made, once, and shelves what the database answers: they are there, and what others changed before.
   * `from`: what was seen when they were decided on, however late they come there.
   */
  async #send(
    changes: readonly Note[],
    entry: AuditEntry | undefined,
    notes: boolean,
    from: Head
  ): Promise<readonly DocumentRow[]> {
    const sent = changes.map(({ kind, id, value, base }) => ({
      kind,
      id,
      value: value && JSON.stringify(value),
      base: String(base)
    }))
    const id = randomUUID()
    const until = performance.now() + changeWithin
    for (;;) {
      try {
        const { rows } = await this.#database.changes.query<DocumentRow & { stamp: string }>(
          'select * from sluice.change_documents($1, $2, $3, $4, $5, $6)',
          [id, JSON.stringify(sent), entry ? JSON.stringify(searchable(entry)) : null, notes, from.version, from.stamp]
        )
        const last = rows.at(-1)
        if (last) this.#tell(this.#shelves.put(rows, from, { version: last.version, stamp: last.stamp }))
        // Nothing comes back to a gateway that has to read all: deletions are forgotten, or what it has is lost.
        else if (changes.length > 0) await this.#catchUp().catch(unknown)
        return rows
      } catch (error) {
        if (!(error instanceof DatabaseFault)) throw error
        if (error.code === 'SL001') {
          await this.#catchUp().catch(() => {})
          throw new GatewayError(
            'invalid_request',
            'Another gateway has changed this meanwhile. Look at it, and try again.',
            {
              status: 409,
              shownCode: 'changed_meanwhile',
              cause: error
            }
          )
        }
        if (!(error.unknown || error.conflict) || performance.now() > until) throw unavailable(error)
      }
    }
  }

  async #sendNotes(): Promise<void> {
    // What else is noted in this turn goes along.
    await Promise.resolve()
    while (this.#notes.size > 0) {
      const notes = this.#notes
      this.#notes = new Map()
      const sending = this.#send([...notes.values()], undefined, true, this.#shelves.seen)
      this.#underWay = sending.then(
        (rows) => takenOf(notes, rows),
        () => new Map()
      )
      try {
        await sending
      } catch (error) {
        // They are kept until the database is there again; what was noted since then is newer.
        const kept = isConflict(error) ? [...notes].filter(([, note]) => isNew(note)) : notes
        this.#notes = new Map([...kept, ...this.#notes])
        if (this.#stopping.signal.aborted) break
        await sleep(pollEvery, undefined, { signal: this.#stopping.signal }).catch(() => {})
      }
    }
    this.#noting = this.#underWay = undefined
  }

  async #poll(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await sleep(pollEvery * (0.7 + Math.random() * 0.6), undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      await this.#catchUp().catch(() => {})
      if (performance.now() - this.#swept < sweepEvery || !this.#database.clock.agrees) continue
      this.#swept = performance.now()
      await this.#database.changes.query('select sluice.sweep_documents()').catch(() => {})
    }
  }

  /**
   * Reads what is above the version that this gateway has, or all where the database does not know it.
   * A read that has begun may miss what this one is for.
   */
  #catchUp(): Promise<void> {
    return (this.#next ??= (this.#reading ?? Promise.resolve())
      .catch(() => {})
      .then(() => {
        this.#next = undefined
        return (this.#reading = this.#read())
      }))
  }

  async #read(): Promise<void> {
    const asked = performance.now()
    const from = this.#shelves.seen
    const { rows } = await this.#database.reads.query<DocumentRow & { head: bigint; stamp: string; whole: boolean }>(
      // Two branches, of which one runs, so that what is new is found by its index.
      `select d.kind, d.id, d.value, d.version, d.place, b.version as head, b.stamp, b.whole
       from (
         select version, stamp,
           floor > $1 or stamp is distinct from $2::uuid
             and not exists (select from sluice.document_change c where c.stamp = $2::uuid) as whole
         from sluice.book
       ) b left join lateral (
         select * from sluice.document where not b.whole and version > $1
         union all select * from sluice.document where b.whole and value is not null
       ) d on true
       order by case when b.whole then d.place else d.version end`,
      [from.version, from.stamp],
      { deadline: 30_000 }
    )
    const [{ head: version, stamp, whole }] = rows as [(typeof rows)[number]]
    const head: Head = { version, stamp }
    const found = rows.filter(({ kind }) => kind !== null)
    if (!whole) this.#tell(this.#shelves.put(found, from, head))
    else if (from === this.#shelves.seen) {
      this.#notes = new Map([...this.#notes].filter(([, note]) => isNew(note)))
      this.#tell(this.#shelves.replace(found, head))
    }
    // A change was answered meanwhile, and brought what this may lack.
    else return this.#read()
    this.#current = asked
  }

  #tell(changes: readonly DocumentChange[]): void {
    if (changes.length > 0) for (const tell of this.#watchers) tell(changes)
  }
}

/** Whether it was refused as it was decided on something else than there is. */
function isConflict(error: unknown): boolean {
  return error instanceof GatewayError && error.details.shownCode === 'changed_meanwhile'
}

/**
 * Whether it is of a document that was not there. Where the history of before is lost, or too old, a note of any other
 * is left out: the version that it was made on may be that of something else.
 */
function isNew({ base }: Note): boolean {
  return base === 0n
}

/** The changes are made, and what they have led to could not be read: they are asked for again. */
function unknown(error: unknown): never {
  const { code, message } = DatabaseFault.of(error)
  throw new DatabaseFault(code, message, { unknown: true })
}

/** The documents whose notes the database took: the version before, and the one after. */
type TakenNotes = ReadonlyMap<string, { readonly base: bigint; readonly version: bigint }>

function takenOf(notes: ReadonlyMap<string, Note>, rows: readonly DocumentRow[]): TakenNotes {
  return new Map(
    rows.flatMap((row) => {
      const note = notes.get(nameOf(row))
      const isTaken = note && row.value === (note.value && JSON.stringify(note.value))
      return isTaken ? [[nameOf(row), { base: note.base, version: row.version }] as const] : []
    })
  )
}

/** An entry as it is stored: its JSON, and beside it what it is searched by. */
export function searchable(entry: AuditEntry): Record<string, string> {
  const members = auditMembers.flatMap((name) => {
    const value = entry[name]
    return typeof value === 'string' ? [[name, plain(value)] as const] : []
  })
  return { json: JSON.stringify(entry), ...Object.fromEntries(members) }
}

function nameOf({ kind, id }: { readonly kind: string; readonly id: string }): string {
  return `${kind}\n${id}`
}
