// The supervisor's end of the lines to workers: answers what they ask for, and has them follow what changes.
import type { MessagePort } from 'node:worker_threads'
import { Clerk } from '../distant/clerk.ts'
import type { ClerkParts } from '../distant/clerk.ts'
import { Line } from '../distant/line.ts'
import { threadPort } from '../distant/thread-port.ts'
import type { DocumentChange } from '../documents.ts'
import type { BalanceReader } from '../embedded/book/purses.ts'
import type { BudgetReached, BudgetWatcher } from '../ledger.ts'
import type { Errand, Told, Work } from '../works.ts'
import { supervisor } from './arena/seats.ts'
import type { SharedWork } from './shared-work.ts'

/** How long somebody waits for the thread that has work, in milliseconds. */
const patience = 5000

/** What is attended to. */
export interface AttendanceParts extends ClerkParts {
  /** All documents, as changes, and who is told when they change. */
  readonly documents: {
    readonly whole: readonly DocumentChange[]
    watch(tell: (changes: readonly DocumentChange[]) => void): () => void
  }
  readonly work: SharedWork
  /** Does what is asked of the supervisor's own open work; undefined when it is not open any more. */
  serve(work: Work, what: Errand, said: unknown): Promise<Work> | undefined
  /** What this thread answers for work; undefined when it does not. */
  tell(work: Work, from: number): Promise<Told | undefined> | undefined
  /** The tellings of thresholds, if anybody wants them. */
  watcher(): BudgetWatcher | undefined
  flush(): Promise<void>
  /** Reads balances that are not in the shared memory, when the database has everything. */
  readonly older: BalanceReader
  /** As {@link Works.flushed} of work. */
  flushed(): Promise<boolean>
}

interface Attended {
  readonly line: Line
  readonly clerk: Clerk
  /** Whether it has the documents, and follows them. */
  joined: boolean
  /** When it was told of changes that it has not acknowledged, by performance.now(); oldest first. */
  readonly unheard: number[]
  /** Resolves when it has acknowledged all changes until now, or is gone. */
  heard: Promise<void>
}

/** All workers, by their seats. */
export class Attendance {
  readonly #parts: AttendanceParts
  readonly #workers = new Map<number, Attended>()

  constructor(parts: AttendanceParts) {
    this.#parts = parts
    parts.documents.watch((changes) => this.#spread(changes))
  }

  /** Attends to the worker of a seat, by its port. */
  add(seat: number, port: MessagePort): void {
    const line = new Line(threadPort(port))
    const worker: Attended = {
      line,
      clerk: new Clerk(this.#parts),
      joined: false,
      unheard: [],
      heard: Promise.resolve()
    }
    this.#workers.set(seat, worker)
    void line.closed.then(() => line.fail())
    line.serve({
      ...worker.clerk.served,
      join: () => this.#join(seat, worker),
      flush: () => this.#parts.flush(),
      readBalances: (...question: Parameters<BalanceReader['ask']>) => this.#parts.older.ask(...question),
      flushedWork: () => this.#parts.flushed(),
      errand: (work: Work, what: Errand, said: unknown) => this.errand(work, what, said),
      told: (work: Work, from: number, by: number | undefined) => this.told(work, from, by),
      reached: (reached: BudgetReached) => this.#reached(reached)
    })
  }

  /** The thread of a seat has ended. Resolves when all that it asked for was done, and its claims are given up. */
  async remove(seat: number): Promise<void> {
    const worker = this.#workers.get(seat)
    if (!worker) return
    await worker.line.closed
    this.#workers.delete(seat)
    worker.clerk.end()
  }

  /** The names that the worker of a seat has claimed. */
  claimsOf(seat: number): readonly string[] {
    return this.#workers.get(seat)?.clerk.claimed ?? []
  }

  /** Resolves when all workers have acknowledged all changes of documents until now, or are gone. */
  async heard(): Promise<void> {
    await Promise.all([...this.#workers.values()].map(({ heard }) => heard))
  }

  /** Whether a worker has the documents. Until then it serves nobody. */
  hasJoined(seat: number): boolean {
    return this.#workers.get(seat)?.joined === true
  }

  /** The seats that have not acknowledged a change for so many milliseconds. */
  late(patience: number): readonly number[] {
    const before = performance.now() - patience
    return [...this.#workers].flatMap(([seat, { unheard }]) => (unheard[0]! < before ? [seat] : []))
  }

  /**
   * Asks the thread that goes on with work. Resolves with the work as it has it; with undefined when it does not answer
   * for some seconds, or has not the work any more. Never rejects.
   */
  errand(work: Work, what: Errand, said: unknown): Promise<Work | undefined> {
    const owner = this.#parts.work.ownerOf(work)
    return inTime(
      owner === supervisor
        ? this.#parts.serve(work, what, said)
        : this.#workers.get(owner)?.line.ask<Work | undefined>('errand', work, what, said)
    )
  }

  /** What a thread has answered for work: the one that was asked before, or else the one that goes on with it. */
  async told(work: Work, from: number, seat = this.#parts.work.ownerOf(work)): Promise<Told | undefined> {
    const told = await inTime(
      seat === supervisor
        ? this.#parts.tell(work, from)
        : this.#workers.get(seat)?.line.ask<Told | undefined>('told', work, from)
    )
    return told && { ...told, seat }
  }

  close(): void {
    this.#parts.work.close()
    for (const { line } of this.#workers.values()) line.hangUp()
  }

  /** From now on it hears of all changes, beginning with what there is. It is told of that before it is answered. */
  #join(seat: number, worker: Attended): void {
    worker.line.tell('documents', this.#parts.documents.whole)
    this.#parts.work.listen(seat, (tally) => worker.line.tell('tally', tally))
    worker.joined = true
  }

  #spread(changes: readonly DocumentChange[]): void {
    for (const worker of this.#workers.values()) {
      if (!worker.joined) continue
      worker.unheard.push(performance.now())
      const acknowledged = (): void => void worker.unheard.shift()
      // Acknowledged in the order in which it was told.
      worker.heard = worker.line.ask<void>('documents', changes).then(acknowledged, acknowledged)
    }
  }

  #reached(reached: BudgetReached): void {
    const watcher = this.#parts.watcher()
    // Another worker may have seen it too.
    if (watcher && watcher.told(reached) < reached.threshold) watcher.reached(reached)
  }
}

/** What a thread answers; undefined when it does not for some seconds, or cannot. */
async function inTime<T>(asked: Promise<T | undefined> | undefined): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(resolve, patience, undefined).unref()))
  try {
    return await Promise.race([asked, late])
  } catch {
    return undefined
  } finally {
    clearTimeout(timer)
  }
}
