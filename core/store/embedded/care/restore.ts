// Brings a backup back: checks it, makes a copy of it beside the store, and puts that in the place of what is there.
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { backUp } from './backup.ts'
import { DamagedStore } from '../files/damage.ts'
import { differenceOf } from './difference.ts'
import type { Difference } from './difference.ts'
import { identityOf, readHead } from '../database/head.ts'
import { wholeness } from './verify/invariants.ts'
import { canonicalPath, Ownership } from '../files/lock.ts'
import { checkSchema } from '../database/migration.ts'
import { syncDirectory } from '../files/directory.ts'
import { openForReading } from '../files/sqlite.ts'
import { contentsOf, dropStaged, pendingSwap, stagedPath, swap } from '../files/swap.ts'
import { toldAs } from './tell.ts'
import type { Tell } from './tell.ts'
import { diagnose } from '../files/troubles.ts'
import { toldOf } from './verify/checking.ts'
import { verify } from './verify/verify.ts'

/** What a restore did, or would do. */
export interface Restored {
  /** The store, and the file that came in its place. */
  file: string
  source: string
  /** The id that all copies of the restored store share, in hexadecimal. */
  store: string
  /** The entries of its journal. */
  entries: number
  /** The rows that break an invariant although they are what was written. */
  breaches: number
  /**
   * What only the store had that was there, and what only the file has; a sentence when it cannot be told. Undefined
   * when no store was there.
   */
  lost: Difference | string | undefined
  gained: Difference | string | undefined
  /** The folder with what was there before; null when nothing was, or nothing was moved yet. */
  aside: string | null
}

/** How a store is restored. */
export interface RestoreOptions {
  /** Takes the file also when it is of another store. */
  foreign?: boolean
  tell?: Tell
  /** Unix milliseconds; the folder for what is there has it in its name. */
  now?: number
}

/**
 * Says what {@link restore} would do, and changes nothing. A gateway may be running.
 * @throws Error when the file cannot be restored
 */
export function tryRestore(
  given: string,
  source: string,
  { foreign = false, tell = () => {} }: RestoreOptions = {}
): Restored {
  const file = canonicalPath(given)
  const pending = pendingSwap(file)
  if (pending)
    throw new Error(
      `a restore of ${pending.source} was broken off: start the gateway, or restore without --dry-run, which completes it`
    )
  const store = examine(file, source, foreign)
  const breaches = refusing(source, () => verify(source, toldOf(tell)))
  const [first] = breaches.filter(({ invariant }) => wholeness.has(invariant))
  if (first) throw unusable(source, `${first.invariant} ${first.row} ${first.message}`)
  return { file, source, store, breaches: breaches.length, ...between(file, source, tell), aside: null }
}

/**
 * Puts a copy of a store, such as a backup, in the place of another one, whose contents are moved to a folder beside
 * it. Killed at any moment, it leaves one of the two, or is completed by whoever owns the store next. The same restore
 * once more after that does nothing. The copy has a history of its own. The file that is restored stays as it is.
 * @throws Error when the store is in use, and when the file cannot be restored; then nothing has changed
 */
export async function restore(
  given: string,
  source: string,
  { foreign = false, tell = () => {}, now = Date.now() }: RestoreOptions = {}
): Promise<Restored> {
  examine(canonicalPath(given), source, foreign)
  const owner = Ownership.take(given, { damaged: true })
  const { file } = owner
  try {
    const store = examine(file, source, foreign)
    if (owner.ended?.source === source) {
      const { aside } = owner.ended
      const before = aside === null ? undefined : join(aside, basename(file))
      return { file, source, store, breaches: 0, ...between(before, file, tell), aside }
    }
    keepOthersOut(owner)
    const staged = stagedPath(file)
    const made = await backUp(source, staged, { tell, verified: true }).catch((error: unknown) => {
      throw notCopied(source, (error as Error).message)
    })
    const found = between(file, staged, tell)
    tell('putting it in place')
    const names = contentsOf(file)
    const aside = names.length === 0 ? null : folderFor(file, now)
    owner.loosen()
    swap(file, { source, aside, names })
    return { file, source, store, breaches: made.breaches, ...found, aside }
  } finally {
    if (!pendingSwap(file)) dropStaged(file)
    owner.release()
  }
}

/**
 * Looks at a file without reading all of it. Returns the id of its store.
 * @throws Error when it is none, or not of the store that is there
 */
function examine(file: string, source: string, foreign: boolean): string {
  if (!statSync(source, { throwIfNoEntry: false })?.isFile()) throw new Error(`there is no file ${source}`)
  if (canonicalPath(source) === file) throw new Error(`${source} is the store itself: give a backup of it`)
  const store = refusing(source, () => identityIn(source))
  if (store === '') throw unusable(source, 'no gateway has ever been started with it')
  const present = identityOfPresent(file)
  if (foreign || present === undefined || present === store) return store
  throw new Error(
    `${source} is of another store (${store}) than ${file} (${present}): nothing was changed; give a backup of this one, or say --foreign if you mean it`
  )
}

function identityIn(file: string): string {
  const database = openForReading(file)
  try {
    checkSchema(database, file, { older: true })
    readHead(database)
    return identityOf(database)
  } finally {
    database.close()
  }
}

/** The id of the store that is there; undefined when there is none, or it cannot be read. */
function identityOfPresent(file: string): string | undefined {
  if (!statSync(file, { throwIfNoEntry: false })?.size) return undefined
  try {
    return identityIn(file) || undefined
  } catch {
    return undefined
  }
}

/** Calls `read`, and says that the file cannot be restored when it throws. */
function refusing<T>(source: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw unusable(source, (error as Error).message)
  }
}

function unusable(source: string, why: string): Error {
  return new DamagedStore(
    `${source} cannot be restored: ${why}. Nothing was changed: give another backup, or mend this one (\`sluice ledger repair --db ${source}\` shows what is wrong with it)`
  )
}

/** Holds the database open, so that no other process takes it while this one works, even without the lock file. */
function keepOthersOut(owner: Ownership): void {
  try {
    owner.hold()
  } catch {
    // It is damaged or no database.
  }
}

function notCopied(source: string, message: string): Error {
  return diagnose(message).ofDisk
    ? new Error(`${source} could not be copied: ${message}. Nothing was changed`)
    : unusable(source, message)
}

function between(file: string | undefined, other: string, tell: Tell): Pick<Restored, 'lost' | 'gained' | 'entries'> {
  tell('comparing the two')
  const entries = entriesIn(other)
  if (file === undefined || contentsOf(file).length === 0) return { entries, lost: undefined, gained: undefined }
  return { entries, lost: told(file, other, tell), gained: told(other, file, tell) }
}

function entriesIn(file: string): number {
  const database = openForReading(file)
  try {
    return readHead(database).seq
  } finally {
    database.close()
  }
}

function told(file: string, other: string, tell: Tell): Difference | string {
  try {
    return differenceOf(file, other, toldAs(tell, 'comparing the two'))
  } catch (error) {
    return `cannot be told: ${(error as Error).message}`
  }
}

/** Makes the folder for what is there, with the time (Unix milliseconds) in its name. */
export function folderFor(file: string, now: number): string {
  const folder = `${file}.replaced-${new Date(now).toISOString().replaceAll(/[:.]/g, '-')}`
  for (let more = 1; ; more++) {
    const path = more === 1 ? folder : `${folder}-${more}`
    if (existsSync(path)) continue
    mkdirSync(path, { mode: 0o700 })
    syncDirectory(dirname(path))
    return path
  }
}
