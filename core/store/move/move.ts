// Moves a store between the engines: from the file of one machine to a book in PostgreSQL, or back.
import { setTimeout as sleep } from 'node:timers/promises'
import { readAddress } from '../cluster/database/address.ts'
import { Database } from '../cluster/database/database.ts'
import { Lane } from '../cluster/database/lane.ts'
import { loadPackage } from '../cluster/database/package.ts'
import { verifyBook } from '../cluster/money/verify/verify.ts'
import type { Breach } from '../embedded/care/verify/invariants.ts'
import type { Tell } from '../embedded/care/tell.ts'
import { toldOf } from '../embedded/care/verify/checking.ts'
import { verifyInThreads } from '../embedded/care/verify/verify.ts'
import { BookSource, waitForGateways } from './book-source.ts'
import { BookTarget, refuseRows } from './book-target.ts'
import { carry, differences } from './carry.ts'
import { FileSource } from './file-source.ts'
import { FileTarget } from './file-target.ts'
import type { Counts, Place, Source, Target } from './parts.ts'

/** From where to where a store is moved: files, or URLs of PostgreSQL. One of them is a URL. */
export interface MoveOptions {
  readonly from: string
  readonly to: string
  /** Only looks: nothing is made. */
  readonly dryRun?: boolean | undefined
  readonly tell?: Tell
}

/** What was moved, or would be. */
export interface Moved {
  /** For people: files, and databases without users and passwords. */
  readonly from: string
  readonly to: string
  readonly counts: Counts
}

/**
 * How long a statement of the source may take, in milliseconds: it may have to sort the whole journal. Between two of
 * them files are written and checked.
 */
const within = { deadline: 3_600_000, wait: 10_000, idle: 0 }

/** Whether a place of a store is a database. */
export function isUrl(place: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(place)
}

/**
 * Moves a store. The source stays as it is, and no gateway can use it meanwhile; nor the target, until all is there and
 * verified. A move that was broken off is gone on with by the same call.
 * @throws Error when the target has something else, a gateway runs on either, or what was carried is not what was there
 */
export async function moveStore(options: MoveOptions): Promise<Moved> {
  const { from, to } = options
  if (isUrl(from) === isUrl(to))
    throw new Error(
      isUrl(from)
        ? 'both places are databases: copy one to the other with pg_dump and psql, while no gateway runs'
        : 'both places are files: copy one to the other with "sluice ledger backup"'
    )
  return isUrl(to) ? toBook(options) : toFile(options)
}

async function toBook({ from, to, dryRun, tell = () => {} }: MoveOptions): Promise<Moved> {
  const { shown } = readAddress(to)
  const source = FileSource.open(from)
  try {
    if (dryRun) {
      await lookAt(to, shown)
      return { from, to: shown, counts: await source.counts() }
    }
    const database = await Database.open({ url: to, name: 'sluice ledger move', moving: true })
    try {
      const check = (): Promise<readonly Breach[]> => verifyInThreads(source.file, toldOf(tell))
      return await move(source, new BookTarget(database, shown), check, tell)
    } finally {
      await database.close()
    }
  } finally {
    source.close()
  }
}

async function toFile({ from, to, dryRun, tell = () => {} }: MoveOptions): Promise<Moved> {
  const { shown } = readAddress(from)
  const database = await Database.open({ url: from, name: 'sluice ledger move', moving: true })
  try {
    await waitForGateways(
      (text) => database.reads.query(text),
      shown,
      async (names) => {
        tell(`waiting until ${names} is gone`)
        await sleep(250)
      }
    )
    return await database.changes.transaction(async (transaction) => {
      const source = await BookSource.open(transaction, shown)
      if (dryRun) return { from: shown, to, counts: await source.counts() }
      const target = FileTarget.open(to)
      try {
        return await move(source, target, () => verifyBook(database.reads, toldOf(tell)), tell)
      } finally {
        target.close()
      }
    }, within)
  } finally {
    await database.close()
  }
}

/** `check` finds what is wrong with the source, which is not moved then. */
async function move(
  source: Source,
  target: Target,
  check: () => readonly Breach[] | Promise<readonly Breach[]>,
  tell: Tell
): Promise<Moved> {
  tell('counting the rows')
  const counts = await source.counts()
  if (!(await target.begun(source))) refuse(await check(), source.shown)
  const place = await target.begin(source)
  if (!place.verified) await carryAll(source, target, place, counts, tell)
  await target.giveOver()
  return { from: source.shown, to: target.shown, counts }
}

/** Carries what is left, and verifies the whole. */
async function carryAll(source: Source, target: Target, place: Place, counts: Counts, tell: Tell): Promise<void> {
  await carry(source, target, place, counts, tell)
  tell('checking what was carried')
  await target.complete()
  const different = differences(counts, await target.counts())
  if (different.length > 0)
    throw new Error(
      `not all of ${source.shown} is in ${target.shown}, and it is not given over: ${different.join('; ')}`
    )
  refuse(await target.verify(tell), target.shown)
}

/** @throws Error when there are breaches */
function refuse([first, ...others]: readonly Breach[], shown: string): void {
  if (!first) return
  const { invariant, row, message } = first
  const more = others.length === 0 ? '' : `, and ${others.length} more`
  throw new Error(
    `${shown} is not sound, and nothing is given over: ${invariant} ${row}: ${message}${more}. "sluice ledger verify" shows all`
  )
}

/** Looks at a database that a store would be moved to. @throws Error when it cannot be one */
async function lookAt(url: string, shown: string): Promise<void> {
  await loadPackage()
  const lane = new Lane(readAddress(url), 'sluice ledger move', 1)
  try {
    await lane.transaction(async (transaction) => {
      await transaction.query('set transaction read only')
      const { rows } = await transaction.query<{ some: boolean }>(
        `select to_regnamespace('sluice') is not null as some`
      )
      if (rows[0]!.some) await refuseRows(transaction, shown)
    })
  } finally {
    await lane.close()
  }
}
