// Opens the built-in store for one process: a journal and the SQLite file that is made of it, or a SQLite file alone
// with its commit log.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Book } from './book/book.ts'
import { hasLog } from './care/has-log.ts'
import { tellLog } from './care/tell.ts'
import type { KeptHold } from './book/book.ts'
import { DocumentBook } from './book/document-book.ts'
import { canonicalPath, Ownership } from './files/lock.ts'
import { Logbook } from './book/logbook.ts'
import { Reader } from './reader/reader.ts'
import { Results } from './files/results.ts'
import { Shelf } from './book/shelf.ts'
import { Room } from './book/room.ts'
import { RouteBook } from './book/route-book.ts'
import { giveSpare, isFull } from './files/spare.ts'
import type { Durability } from './files/sqlite.ts'
import type { Store } from '../store.ts'
import { silentLog } from '../../telling/log.ts'
import type { Logger } from '../../telling/log.ts'
import { hasJournal } from './segments/folder.ts'
import { usualSizes } from './segments/segment-log.ts'
import type { SegmentSizes } from './segments/segment-log.ts'
import { volumeFolder } from './journal/volume.ts'
import type { Keeping } from './upkeep/upkeep.ts'
import type { Drafts } from './writer/draft.ts'
import type { Snapshot } from './writer/snapshot.ts'
import { Writer } from './writer/writer.ts'
import { doubted } from '../../money/settlement.ts'
import { explain, Troubles } from './files/troubles.ts'
import { WorkList } from './book/work-list.ts'
import { steadyNow } from '../../watchdog/steady-time.ts'

/** How long routes are kept by default, in milliseconds: 30 days. */
export const usualRouteAge = 30 * 86_400_000

/**
 * How many entries and records a store may have that is taken over although nobody asked. A hundred thousand requests
 * are some five seconds of work, and clients wait for it.
 */
export const soonMoved = 200_000

/** Where a journal is. */
export type JournalForm = 'database' | 'segments'

/** Where and how to store. */
export interface StoreOptions {
  /**
   * The database. It is made when missing, with its folder. `:memory:` stands for a temporary file that is deleted when
   * the store is closed.
   */
  file: string
  /**
   * With `power` a commit survives a loss of power; with `process` it survives the end of the process, however that
   * ends. With `deferred` a commit survives a loss of power too, but holds and their ends are acknowledged before: see
   * DEFERRED.md.
   */
  durability: Durability | 'deferred'
  /**
   * Where the journal is: rows of the database, or segments, from which the database is made. A store with a journal in
   * the database is taken over when segments are asked for, unless it is `busy`. Default: where it is, and for a new
   * store segments.
   */
  form?: JournalForm | undefined
  /**
   * Without a form, a store with a journal in the database is taken over as well while it has no more than so many
   * entries and records, unless it is `busy`. When that fails, it goes on as it is. Default: 0, none.
   */
  takesOver?: number | undefined
  /** The sizes of segments. Tests have smaller ones than usual. */
  segments?: SegmentSizes | undefined
  /** How much is kept of what grows. Default: everything, for ever. */
  keeping?: Keeping | undefined
  /** How long a route is kept, in milliseconds. Default: as long as OpenAI keeps responses. */
  routeAge?: number
  /** The holds that the process before goes on with: they are not ended, although this process did not make them. */
  kept?: readonly KeptHold[]
  /** Whether this thread has requests to serve meanwhile. Opening a store may take long, and has a thread then. */
  busy?: boolean
  /** Receives the troubles of the store. Default: none is logged. */
  log?: Logger
  /** Makes the ledger. Default: one over balances that this thread alone has. */
  ledger?: (parts: LedgerParts) => Accounting
  /** The clock, for tests. Default: the clock of the machine, and the steady time for everything that expires. */
  now?: () => number
}

/** What a ledger is made of. */
export interface LedgerParts {
  readonly writer: Writer
  readonly snapshot: Snapshot
  readonly reader: Reader
  readonly troubles: Troubles
  /** Unix milliseconds. */
  readonly now: () => number
  readonly kept: readonly KeptHold[]
  readonly deferred: boolean
}

/** A ledger, and where its operations go. */
export interface Accounting {
  readonly ledger: Book
  /** Records of requests go there too, behind the ends that they tell of. */
  readonly drafts: Drafts
  /** Brings what is left to the writer. Nothing may be called after it. */
  close(): Promise<void>
}

/** A store of this process itself, which can hand its holds over. */
export interface OwnStore extends Store {
  readonly documents: DocumentBook
  readonly ledger: Book
  readonly answers: Shelf
  readonly routes: RouteBook
  readonly works: WorkList
  /** The canonical path of the database. */
  readonly path: string
}

/**
 * Opens a store: locks the file, brings its schema up to date, and ends what a crash left open, before it resolves.
 * @throws Error when another process has the file, a newer version wrote it, or it cannot be read
 */
export async function openStore({
  file,
  durability,
  form,
  takesOver = 0,
  segments = usualSizes,
  keeping,
  routeAge = usualRouteAge,
  kept = [],
  busy = false,
  log = silentLog,
  ledger: account = ownAccounting,
  now
}: StoreOptions): Promise<OwnStore> {
  const isOld = file !== ':memory:' && form !== 'database' && hasLog(canonicalPath(file))
  const failed = isOld
    ? await move({ file, durability, form, takesOver, kept, busy, log, ...(now && { now }) })
    : undefined
  const [clock, lasting] = [now ?? Date.now, now ?? steadyNow]
  const given = file === ':memory:' ? join(mkdtempSync(join(tmpdir(), 'sluice-')), 'store.db') : file
  const owner = own(given)
  const path = owner.file
  const troubles = new Troubles(log, path)
  tellEnded(owner, log)
  const refused = (error: unknown): never => {
    owner.release()
    throw explain(error, path)
  }
  const deferred = durability === 'deferred'
  const synced = deferred ? 'power' : durability
  const folder = volumeFolder(path)
  if (form === 'database' && hasJournal(folder)) refused(notTakenBack(path, folder))
  const inSegments = hasJournal(folder) || (form !== 'database' && !hasLog(path))
  const results = new Results(path, synced)
  const found = await results.files().catch(refused)
  const { writer, snapshot } = await Writer.open(
    {
      file: path,
      durability: synced,
      segments: inSegments ? segments : undefined,
      keeping,
      kept: [...new Set(kept.map(({ requestId }) => requestId))]
    },
    troubles,
    clock,
    busy
  ).catch(refused)
  owner.hold()
  if (failed !== undefined && !inSegments) troubles.begin('form', `it was not taken over: ${failed}`)
  const reader = new Reader(path)
  // What operators ask for may take long. It has a thread of its own, so that no request of a client waits for it.
  const searcher = new Reader(path)
  const accounting = account({ writer, snapshot, reader, troubles, now: clock, kept, deferred })
  const { ledger, drafts } = accounting
  const requests = new Logbook(drafts, writer.health, searcher, troubles, (requestId) => ledger.owes(requestId))
  const answers = new Shelf(writer, reader, keeping?.answers?.age ?? Infinity, lasting)
  const { ended, doubted: doubtful } = snapshot.recovered
  if (ended > 0)
    log.warn('the last process left requests open: they were ended and charged by estimate', {
      store: path,
      requests: ended
    })
  if (doubtful > 0) log.error(doubted, { store: path, requests: doubtful })
  const close = async (): Promise<void> => {
    try {
      answers.close()
      await Promise.all([reader.quiet(), searcher.quiet()])
      await Promise.all([reader.close(), searcher.close()])
      owner.loosen()
      await accounting.close()
      await writer.close()
    } finally {
      troubles.close()
      owner.release()
      if (file === ':memory:') rmSync(dirname(path), { recursive: true })
    }
  }
  let closing: Promise<void> | undefined
  return {
    path,
    ledger,
    requests,
    answers,
    routes: new RouteBook(writer, reader, routeAge, lasting),
    documents: new DocumentBook(writer, searcher, snapshot.documents, clock),
    works: new WorkList(writer, reader, results, found, snapshot.works, new Room(snapshot.room), lasting),
    async spend(query) {
      if (writer.health.healthy) await drafts.flushed()
      return (await searcher.ask({ kind: 'spend', query })).page
    },
    async traffic(query) {
      if (writer.health.healthy) await drafts.flushed()
      return (await searcher.ask({ kind: 'traffic', query })).points
    },
    async flush() {
      await drafts.flushed()
    },
    health: () => writer.report(),
    nodes: () => [],
    close: () => (closing ??= close())
  }
}

/**
 * Brings the journal of a store into segments, if that is asked for, or soon done. Returns what was wrong with an
 * attempt that nobody had asked for.
 * @throws Error when one that was asked for fails
 */
async function move({ form, takesOver = 0, busy = false, ...options }: StoreOptions): Promise<string | undefined> {
  const { file, log = silentLog, now = Date.now } = options
  if (form === undefined) {
    if (busy || takesOver === 0) return undefined
    const { takeOverUnasked } = await import('./care/unasked.ts')
    return takeOverUnasked(file, takesOver, now(), log)
  }
  if (busy) {
    log.warn('the journal stays in the database: it is moved by a start that nobody waits for', { store: file })
    return undefined
  }
  // Once as it is, so that its log is in its database and what a crash left is ended.
  await (await openStore(options)).close()
  const { takeOver, tookOver } = await import('./care/takeover.ts')
  tookOver(log, file, await takeOver(file, now(), tellLog(log, { store: file })))
  return undefined
}

/** A ledger over balances of its own, whose drafts are those of the writer. */
function ownAccounting({ writer, snapshot, reader, troubles, now, kept, deferred }: LedgerParts): Accounting {
  const ledger = new Book(writer, snapshot, reader, troubles, now, kept, deferred)
  writer.onEnded = (ended) => ledger.forget(ended)
  writer.onBalance = (batch) => ledger.balance(batch)
  return { ledger, drafts: writer, close: async () => {} }
}

/** What is said where a journal in segments is to be in the database again. */
function notTakenBack(file: string, folder: string): Error {
  return new Error(
    `the journal of ${file} is in segments, in ${folder}, and nothing brings it back into the database: say ` +
      '`store.journal.form: segments`, or leave it out'
  )
}

function tellEnded({ file, ended }: Ownership, log: Logger): void {
  if (ended?.outcome === 'completed')
    log.warn('a restore that was broken off was completed', {
      store: file,
      restored: ended.source,
      put_aside: ended.aside
    })
  if (ended?.outcome === 'dropped')
    log.warn('a restore that was broken off had changed nothing: the store is as it was', { store: file })
}

/** Takes the ownership. The lock file needs some bytes too, so on a full disk the spare file is deleted first. */
function own(file: string): Ownership {
  try {
    return Ownership.take(file)
  } catch (error) {
    if (!isFull(error) || !giveSpare(canonicalPath(file))) throw explain(error, file)
    return Ownership.take(file)
  }
}
