// Verifies the ledger while the gateway runs: one at a time, in a process of its own, and keeps what came of the last.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setPriority } from 'node:os'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { StorePlace } from '../catalogue/store-place.ts'
import { changeOf, documentKind } from '../store/documents.ts'
import type { Documents } from '../store/documents.ts'
import type { VerifyFound, VerifyLine, VerifyStep } from '../store/embedded/care/verify/verify-lines.ts'

/** A verification that ended. Times are in Unix milliseconds. */
export interface Verified {
  readonly id: number
  readonly by: string
  readonly started: number
  readonly ended: number
  readonly outcome: 'holds' | 'broken' | 'failed' | 'cancelled'
  /** Why it failed, or who cancelled it. */
  readonly why: string | null
  /** Null when it failed or was cancelled. */
  readonly found: VerifyFound | null
}

/** A verification under way. */
export interface Verifying {
  readonly by: string
  readonly started: number
  readonly step: VerifyStep
  /** Rows a second of the present table; null before there are any. */
  readonly perSecond: number | null
  /** Milliseconds until the present table is done, at this pace; null when that is not known. */
  readonly leftMs: number | null
}

/** The documents of the latest verifications; their ids are numbers. */
const documentsOfVerified = documentKind<Verified>('verification')
/** How many are kept. */
const most = 10
/** The niceness of the process. */
const nice = 15
/** The most milliseconds that one may take. */
const patience = 12 * 3_600_000

/** What {@link Verification} needs. */
export interface VerificationParts {
  /** Where the store is. */
  readonly place: StorePlace
  readonly documents: Pick<Documents, 'all' | 'note'>
  /** Writes what is pending, so that balances can be compared. */
  flush(): Promise<void>
}

interface Running {
  readonly by: string
  readonly started: number
  child: ChildProcess | undefined
  step: VerifyStep
  /** When the present table was begun, and how many rows it had at its first report. */
  since: number
  from: number
  cancelled: string | undefined
}

/** Verifies the ledger. */
export class Verification {
  readonly #parts: VerificationParts
  #running: Running | undefined
  #closed = false

  constructor(parts: VerificationParts) {
    this.#parts = parts
  }

  /** What is under way; undefined when nothing is. */
  get running(): Verifying | undefined {
    const running = this.#running
    if (!running) return undefined
    const { by, started, step, since, from } = running
    const passed = (performance.now() - since) / 1000
    const done = (step.rows ?? 0) - from
    const perSecond = done > 0 && passed > 0 ? done / passed : null
    const leftMs =
      perSecond !== null && step.of !== null ? Math.max(0, ((step.of - step.rows!) / perSecond) * 1000) : null
    return { by, started, step, perSecond, leftMs }
  }

  /** Those that ended, newest first. */
  get results(): readonly Verified[] {
    return this.#parts.documents.all(documentsOfVerified).toSorted((a, b) => b.id - a.id)
  }

  /** Begins one, unless one is under way: then it returns false. */
  start(by: string): boolean {
    if (this.#running || this.#closed) return false
    const running: Running = {
      by,
      started: Date.now(),
      child: undefined,
      step: { table: 'file', rows: null, of: null },
      since: performance.now(),
      from: 0,
      cancelled: undefined
    }
    this.#running = running
    void this.#run(running)
    return true
  }

  /** Ends the one under way, on behalf of somebody. Returns false when none is. */
  cancel(by: string): boolean {
    if (!this.#running) return false
    this.#running.cancelled = by
    this.#running.child?.kill('SIGKILL')
    return true
  }

  /** Ends the one under way; nothing is kept of it. */
  async close(): Promise<void> {
    this.#closed = true
    this.#running?.child?.kill('SIGKILL')
  }

  /** Never rejects. */
  async #run(running: Running): Promise<void> {
    let [found, why]: [VerifyFound | null, string | null] = [null, null]
    try {
      await this.#parts.flush()
      if (running.cancelled === undefined && !this.#closed) found = await this.#ask(running)
    } catch (error) {
      why = (error as Error).message
    }
    this.#running = undefined
    if (this.#closed) return
    const { by, started, cancelled } = running
    const outcome = cancelled !== undefined ? 'cancelled' : !found ? 'failed' : found.broken > 0 ? 'broken' : 'holds'
    const [newest] = this.results
    const id = (newest?.id ?? 0) + 1
    const result: Verified = {
      id,
      by,
      started,
      ended: Date.now(),
      outcome,
      why: cancelled ?? why,
      found: outcome === 'cancelled' ? null : found
    }
    const old = this.results.slice(most - 1).map((one) => changeOf(documentsOfVerified, String(one.id), null))
    try {
      this.#parts.documents.note([changeOf(documentsOfVerified, String(id), result), ...old])
    } catch {
      // The store takes nothing any more: it says so itself.
    }
  }

  /** @throws Error when the process finds nothing out */
  async #ask(running: Running): Promise<VerifyFound> {
    const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const { place } = this.#parts
    const script =
      place.sqlite === undefined ? 'cluster/money/verify/verify-process' : 'embedded/care/verify/verify-process'
    const path = fileURLToPath(new URL(`../store/${script}.${ending}`, import.meta.url))
    const child = spawn(process.execPath, [path, place.sqlite ?? ''], { stdio: ['pipe', 'pipe', 'pipe'] })
    // An argument could be read by whoever lists processes. One that has ended already says so by itself.
    child.stdin.on('error', () => {}).end(place.sqlite === undefined ? place.postgres.url : '')
    running.child = child
    const timer = setTimeout(() => child.kill('SIGKILL'), patience)
    timer.unref()
    try {
      const [complaint, closed] = [text(child.stderr), once(child, 'close') as Promise<[number | null, string | null]>]
      if (child.pid !== undefined) lower(child.pid)
      let last: VerifyLine | undefined
      const { createInterface } = process.getBuiltinModule('node:readline')
      for await (const line of createInterface({ input: child.stdout })) {
        last = JSON.parse(line) as VerifyLine
        if ('step' in last) follow(running, last.step)
      }
      const [code, signal] = await closed
      if (last && 'found' in last) return last.found
      if (last && 'error' in last) throw new Error(last.error)
      throw new Error(`its process ended with ${signal ?? code}: ${(await complaint).trim().slice(-500)}`)
    } finally {
      clearTimeout(timer)
    }
  }
}

function follow(running: Running, step: VerifyStep): void {
  if (step.table !== running.step.table) {
    running.since = performance.now()
    running.from = step.rows ?? 0
  }
  running.step = step
}

function lower(pid: number): void {
  try {
    setPriority(pid, nice)
  } catch {
    // It has ended already.
  }
}
