// The regular backups of the store: when they are due, and how they are doing. A process of its own makes them.
import { spawn } from 'node:child_process'
import type { ChildProcess, ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { setPriority } from 'node:os'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import type { BackupSettings } from '../catalogue/settings.ts'
import type { BackupAnswer, BackupTask } from '../store/embedded/care/backup-process.ts'
import type { Logger } from '../telling/log.ts'
import type { Counter, Metrics } from '../telling/metrics.ts'
import { steadyNow } from '../watchdog/steady-time.ts'

/** Milliseconds after a start, or a change of the settings, before a backup that is due is made. */
const calm = 10_000
/** Milliseconds from a failure to the next attempt: doubled each time, but no more than the usual time between two. */
const firstRetry = 60_000
/** Milliseconds from a start to the next backup, at most, when the newest one is of the future. */
const unsure = 3_600_000
/** Milliseconds that a look at the folder may take, and the least that a backup may take. */
const lookPatience = 60_000
const makePatience = 600_000
/** A longer timer would fire at once. */
const longestTimer = 2 ** 31 - 1
/** The niceness of the process. */
const nice = 15

/** What {@link Backups} need. */
export interface BackupParts {
  /** The SQLite database; undefined where there is none, and so no settings for backups either. */
  file: string | undefined
  log: Logger
  metrics: Pick<Metrics, 'counter' | 'observed'>
  /** Milliseconds of a clock that runs evenly, for tests. */
  now?(): number
  /** Instead of {@link calm} and {@link firstRetry}, for tests. */
  pauses?: { calm: number; retry: number }
}

/**
 * Makes backups every so often, counted in time that passes: a clock that is set changes nothing. One that was missed
 * while the gateway did not run is made soon after its start.
 */
export class Backups {
  readonly #parts: BackupParts
  readonly #now: () => number
  readonly #pauses: { calm: number; retry: number }
  readonly #attempts: Counter
  #settings: BackupSettings | undefined
  #timer: NodeJS.Timeout | undefined
  #child: ChildProcess | undefined
  /** When the newest good backup was made, by the even clock; undefined when none is known. */
  #good: number | undefined
  #due = Infinity
  /** What the latest failure said, and how many there were in a row. */
  #failure = ''
  #failures = 0
  #closed = false

  constructor(parts: BackupParts) {
    this.#parts = parts
    this.#now = parts.now ?? steadyNow
    this.#pauses = parts.pauses ?? { calm, retry: firstRetry }
    const { metrics } = parts
    this.#attempts = metrics.counter({
      name: 'store_backups_total',
      help: 'Regular backups that were attempted.',
      labels: ['outcome']
    })
    metrics.observed(
      {
        name: 'store_backup_age_seconds',
        help: 'Age of the newest regular backup that was checked; +Inf when there is none. Absent without `store.backups`.'
      },
      () => (this.#settings ? [[{}, this.#good === undefined ? Infinity : (this.#now() - this.#good) / 1000]] : [])
    )
  }

  /** Takes over settings, at the start and at a reload; undefined: no backups are made. */
  use(settings: BackupSettings | undefined): void {
    const before = this.#settings
    if (isDeepStrictEqual(before, settings)) return
    this.#settings = settings
    this.#child?.kill('SIGKILL')
    clearTimeout(this.#timer)
    this.#failures = 0
    if (!settings) return
    if (before?.to === settings.to) return this.#plan()
    this.#good = undefined
    void this.#look(settings)
  }

  /**
   * How the backups are doing: what the latest failure said unless one was made after it, whether the newest good one
   * is older than it should be, and when that was made, in Unix milliseconds.
   */
  get standing(): { failure: string | undefined; overdue: boolean; newest: number | undefined } {
    const settings = this.#settings
    if (!settings) return { failure: undefined, overdue: false, newest: undefined }
    const age = this.#good === undefined ? undefined : this.#now() - this.#good
    return {
      failure: this.#failures > 0 ? this.#failure : undefined,
      // A backup that is due is begun at once; one that takes as long again as its period is late.
      overdue: age !== undefined && age > 2 * settings.every,
      newest: age === undefined ? undefined : Date.now() - Math.round(age)
    }
  }

  /** Ends a backup under way; what it has left is removed by a later one. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#child?.kill('SIGKILL')
  }

  /** Finds the newest backup, from which the next one is counted. */
  async #look(settings: BackupSettings): Promise<void> {
    const { every, to } = settings
    const answer = await this.#ask({ file: this.#parts.file!, folder: to }, lookPatience)
    if (this.#settings !== settings || this.#closed) return
    if ('newest' in answer && answer.newest) {
      const age = Date.now() - answer.newest.time
      // One of the clocks was wrong. Neither may starts in a row make one each, nor must the next one be far away.
      this.#good = this.#now() - (age < 0 ? Math.max(0, every - unsure) : age)
    }
    // Whatever ails the folder, the backup that is made then says so.
    this.#plan()
  }

  /** Waits for the next backup: `every` after the last good one, but not in the first moments. */
  #plan(): void {
    const { every } = this.#settings!
    const now = this.#now()
    this.#due = Math.max((this.#good ?? -Infinity) + every, now + Math.min(this.#pauses.calm, every))
    this.#wait()
  }

  #wait(): void {
    if (this.#closed || !this.#settings) return
    clearTimeout(this.#timer)
    const left = Math.max(0, this.#due - this.#now())
    this.#timer = setTimeout(
      () => (left > longestTimer ? this.#wait() : void this.#make()),
      Math.min(left, longestTimer)
    )
    this.#timer.unref()
  }

  async #make(): Promise<void> {
    const settings = this.#settings!
    const { to, every, keep } = settings
    const { file, log } = this.#parts
    const began = this.#now()
    const answer = await this.#ask({ file: file!, folder: to, keep }, Math.max(every, makePatience))
    if (this.#settings !== settings || this.#closed) return
    if (!('made' in answer)) return this.#fail('error' in answer ? answer.error : 'it said nothing', every)
    const { made } = answer
    this.#attempts.add({ outcome: 'made' })
    this.#good = began
    const { path, entries, bytes, removed, breaches } = made
    const after = this.#failures
    this.#failures = 0
    this.#failure = ''
    log.info(after > 0 ? 'backups are made again' : 'a backup was made and checked', {
      path,
      entries,
      bytes,
      seconds: Math.round((this.#now() - began) / 100) / 10,
      removed
    })
    if (breaches > 0)
      log.warn('a backup is whole, but its book is not in order: `sluice ledger verify` names the rows', {
        path,
        rows: breaches
      })
    this.#plan()
  }

  #fail(error: string, every: number): void {
    this.#attempts.add({ outcome: 'failed' })
    const { log } = this.#parts
    if (error !== this.#failure)
      log.error('a backup could not be made: it is tried again, and the older ones are kept', {
        folder: this.#settings!.to,
        error
      })
    this.#failure = error
    this.#due = this.#now() + Math.min(every, this.#pauses.retry * 2 ** Math.min(this.#failures++, 20))
    this.#wait()
  }

  /** Asks a process of its own, for so many milliseconds at most. Never rejects. */
  async #ask(task: BackupTask, patience: number): Promise<BackupAnswer> {
    const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const script = fileURLToPath(new URL(`../store/embedded/care/backup-process.${ending}`, import.meta.url))
    const { promise: late, resolve: giveUp } = Promise.withResolvers<BackupAnswer>()
    let child: ChildProcess | undefined
    const timer = setTimeout(() => {
      child?.kill('SIGKILL')
      giveUp({
        error: `it took longer than ${Math.round(patience / 1000)} s, and was ended: is the folder still there?`
      })
    }, patience)
    timer.unref()
    try {
      const started = spawn(process.execPath, [script, JSON.stringify(task)], { stdio: ['ignore', 'pipe', 'pipe'] })
      this.#child = child = started
      const answer = answerOf(started)
      if (started.pid !== undefined) lower(started.pid)
      return await Promise.race([answer, late])
    } catch (error) {
      return { error: `its process could not be started: ${(error as Error).message}` }
    } finally {
      clearTimeout(timer)
      if (this.#child === child) this.#child = undefined
    }
  }
}

async function answerOf(child: ChildProcessByStdio<null, Readable, Readable>): Promise<BackupAnswer> {
  const [out, complaint, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null, string | null]>
  ])
  if (out !== '') return JSON.parse(out) as BackupAnswer
  return { error: `its process ended with ${signal ?? code}: ${complaint.trim().slice(-500)}` }
}

function lower(pid: number): void {
  try {
    setPriority(pid, nice)
  } catch {
    // It has ended already.
  }
}
