// Ledgers on one book in PostgreSQL, each as a node of its own has it.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { Database } from '../../core/store/cluster/database/database.ts'
import { openMoney } from '../../core/store/cluster/money/money.ts'
import type { Money, MoneyOptions } from '../../core/store/cluster/money/money.ts'
import { verifyBook } from '../../core/store/cluster/money/verify/verify.ts'
import { WorkList } from '../../core/store/cluster/works/work-list.ts'
import type { RequestRecord } from '../../core/store/requests.ts'
import { work } from '../core/store/embedded/sample.ts'
import { sharedPostgres } from './postgres.ts'

/** A node, with what it wrote to its request log. */
export interface MoneyNode extends Money {
  readonly records: RequestRecord[]
  /** Ends it as a crash does: nothing is written any more. The folder of its log stays. */
  kill(): Promise<void>
}

/** Makes an empty book, and returns its URL. */
export async function moneyBook(): Promise<string> {
  const server = await sharedPostgres()
  return server.book()
}

/** A folder for the logs of nodes, which goes with the test. */
export function logFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-node-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Opens a node on a book. It is closed with the test, if it is not before. */
export async function moneyNode(
  t: Pick<Test, 'teardown'>,
  url: string,
  node: string,
  options: Partial<MoneyOptions> & { folder: string }
): Promise<MoneyNode> {
  const database = await Database.open({ url, name: node })
  const records: RequestRecord[] = []
  let ended: Promise<void> | undefined
  const end = (run: () => Promise<void>): Promise<void> => (ended ??= run())
  try {
    const money = await openMoney({
      database,
      node,
      durability: 'process',
      // On a busy machine the database is silent for longer than anybody would wait.
      patience: 60_000,
      requests: { append: (record) => void records.push(record) },
      ...options
    })
    const opened: MoneyNode = {
      records,
      ledger: money.ledger,
      get trouble() {
        return money.trouble
      },
      get figures() {
        return money.figures
      },
      adopt: (...hold) => money.adopt(...hold),
      async flush() {
        // A gateway gives up after some seconds, which a busy machine may need for much less than this.
        for (let tries = 0; tries < 6 && (tries === 0 || money.figures.queued > 0); tries++) await money.flush()
      },
      close: () => end(() => money.close().then(() => database.close())),
      kill: () => end(() => database.close().then(() => money.close()))
    }
    t.teardown(() => opened.close())
    return opened
  } catch (error) {
    await database.close()
    throw error
  }
}

/** Every row of a book that breaks an invariant. */
export async function brokenIn(url: string): Promise<readonly unknown[]> {
  const database = await Database.open({ url, name: 'verify' })
  try {
    return await verifyBook(database.reads)
  } finally {
    await database.close()
  }
}

/** Writes open work for each of these requests, as their gateway does; it does not go on with it afterwards. */
export async function beginWork(url: string, ...requestIds: readonly string[]): Promise<void> {
  const database = await Database.open({ url, name: 'work' })
  const works = await WorkList.open(database, Date.now)
  await Promise.all(requestIds.map((requestId) => works.put(work(`work of ${requestId}`, { requestId }))))
  await works.close()
  await database.close()
}
