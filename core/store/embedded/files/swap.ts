// Puts a staged store in the place of another, in steps of which any may be the last of the process: whoever owns the
// store next completes them.
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { syncDirectory } from './directory.ts'

/** The endings of the files and folders of a store that hold its contents. */
const contents = ['', '-wal', '-shm', '-journal', '.log0', '.log1', '.journal', '.results', '.takeover'] as const
/** Those of a staged store, which is closed. The database is the last to come to its place. */
const closed = ['.journal', '.results', ''] as const
/** Those that a copy may have left behind when it was broken off. */
const leftovers = ['.restore.new', ...['', '.part'].flatMap((part) => contents.map((one) => `.restoring${part}${one}`))]

/** What is decided: it is on disk before the first file is moved, and goes after the last. */
export interface Swap {
  /** The file that was asked to be restored. */
  source: string
  /** The folder for the present contents; null when there are none. */
  aside: string | null
  /** The names that are moved to that folder, within the folder of the store. */
  names: readonly string[]
}

/** How a restore ended that was broken off. One that was dropped has changed nothing. */
export interface Ended {
  outcome: 'completed' | 'dropped'
  /** The file that was restored, and the folder with what was there before; null for one that was dropped. */
  source: string | null
  aside: string | null
}

/** Where a store that is to take the place of another is made. */
export function stagedPath(file: string): string {
  return `${file}.restoring`
}

/** What tells that a store was to be taken over: it leaves with the store, and stays when that did not come about. */
export function attemptPath(file: string): string {
  return `${file}.takeover`
}

/** The contents of a store, as names within its folder; none when all that is there are empty files. */
export function contentsOf(file: string): string[] {
  const there = contents
    .map((ending) => ({ path: `${file}${ending}`, found: statSync(`${file}${ending}`, { throwIfNoEntry: false }) }))
    .filter(({ found }) => found)
  return there.some(({ found }) => found!.isDirectory() || found!.size > 0)
    ? there.map(({ path }) => basename(path))
    : []
}

/** Decides the swap, and carries it out. The staged store must be complete and synced, and `aside` exist. */
export function swap(file: string, decided: Swap): void {
  const path = planPath(file)
  const fd = openSync(`${path}.new`, 'w+', 0o600)
  try {
    const bytes = Buffer.from(JSON.stringify(decided))
    for (let at = 0; at < bytes.length; at += writeSync(fd, bytes, at));
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(`${path}.new`, path)
  syncDirectory(dirname(file))
  carryOut(file, decided)
}

/** The swap that was decided and not carried out to its end, if there is one. */
export function pendingSwap(file: string): Swap | undefined {
  const path = planPath(file)
  if (!existsSync(path)) return undefined
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Swap
  } catch (error) {
    throw new Error(`${path}, which says how far a restore has come, cannot be read: ${(error as Error).message}`)
  }
}

/**
 * Completes a restore that was decided and broken off. Only the owner of the store may call it. Returns undefined when
 * there was none.
 */
export function endSwap(file: string): Ended | undefined {
  const decided = pendingSwap(file)
  if (!decided) return undefined
  const { source, aside } = decided
  try {
    carryOut(file, decided)
  } catch (error) {
    throw new Error(
      `a restore of ${source} was broken off and cannot be completed (${(error as Error).message}): mend that and start again, which completes it`,
      { cause: error }
    )
  }
  return { outcome: 'completed', source, aside }
}

/**
 * Removes what was staged and not decided. Only the owner of the store may call it. Returns undefined when there was
 * none.
 */
export function dropStaged(file: string): Ended | undefined {
  const left = leftovers.map((ending) => `${file}${ending}`).filter((path) => existsSync(path))
  for (const path of left) rmSync(path, { recursive: true, force: true })
  return left.length > 0 ? { outcome: 'dropped', source: null, aside: null } : undefined
}

function planPath(file: string): string {
  return `${file}.restore`
}

/** Each step is done already when what it moves has arrived, so that all can be repeated from the first. */
function carryOut(file: string, { aside, names }: Swap): void {
  const folder = dirname(file)
  for (const name of aside === null ? [] : names) {
    const [from, to] = [join(folder, name), join(aside!, name)]
    if (!existsSync(to) && existsSync(from)) renameSync(from, to)
  }
  // The old files must have left for good before the new ones take their names.
  if (aside !== null) syncDirectory(aside)
  syncDirectory(folder)
  for (const ending of closed) {
    const staged = `${stagedPath(file)}${ending}`
    if (existsSync(staged)) renameSync(staged, `${file}${ending}`)
  }
  syncDirectory(folder)
  rmSync(planPath(file))
  syncDirectory(folder)
}
