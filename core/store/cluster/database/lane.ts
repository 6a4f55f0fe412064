// Some connections to PostgreSQL that serve one queue, and are made anew when they are lost.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Address } from './address.ts'
import { DatabaseFault } from './fault.ts'
import type { Lineage } from './lineage.ts'
import { Session } from './session.ts'
import type { Result } from './statement.ts'

/** The shortest and the longest pause before a connection is tried again, in milliseconds. */
const [firstPause, longestPause] = [50, 2000]
/** The part of a deadline that the server waits at most: it gives up before we do, and nothing of ours waits on. */
const serversShare = 0.8
/** The most that may wait for a connection. */
const mostWaiting = 10_000

/** The statements of a transaction. */
export interface Transaction {
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Result<Row>>
}

interface Task {
  run(session: Session): Promise<void>
  refuse(fault: DatabaseFault): void
}

/** Milliseconds. */
export interface Limits {
  /** How long each statement may take. Default: the time of the address. */
  readonly deadline?: number
  /** How long all of it may wait for a connection. Default: as long as a statement may take by default, at most. */
  readonly wait?: number
  /** Aborted when nobody wants the answer any more. What runs ends with its connection. */
  readonly left?: AbortSignal | undefined
  /** Whether a statement ends its waits for locks by itself. Default: the server is told to, which costs CPU time. */
  readonly boundsLocks?: boolean
}

/** Milliseconds. */
export interface TransactionLimits extends Limits {
  /**
   * After how long without a statement the server may undo it, as its program may be stopped or cut off and others wait
   * for its locks. 0: never. Default: a part of the deadline, and of that of the address.
   */
  readonly idle?: number
}

/** Connections of one kind. All wait in one queue, in the order in which they came. */
export class Lane {
  readonly #address: Address
  readonly #name: string
  readonly #lineage: Lineage | undefined
  readonly #all = new Set<Session>()
  readonly #idle: Session[] = []
  /** In order. They come and go quickly, and the tables that a Set leaves behind would keep them for long. */
  readonly #waiting: Task[] = []
  readonly #stopping = new AbortController()
  readonly #loops: Promise<void>[]
  /** Why there is no connection; undefined while there is one. */
  #trouble: DatabaseFault | undefined

  /**
   * Connects at once, and again whenever a connection is lost, until it is closed. `size`: how many connections.
   * `lineage`: that of all lanes of a process.
   */
  constructor(address: Address, name: string, size: number, lineage?: Lineage) {
    this.#address = address
    this.#name = name
    this.#lineage = lineage
    this.#loops = Array.from({ length: size }, () => this.#keepOne())
  }

  /** How long a statement may take by default, in milliseconds. */
  get timeout(): number {
    return this.#address.timeout
  }

  /** Why no statement can run at present; undefined while one can. */
  get trouble(): DatabaseFault | undefined {
    return this.#all.size > 0 ? undefined : this.#trouble
  }

  /**
   * Runs a statement, which is committed when it was answered. The server ends its waits for locks before the deadline
   * (`55P03`, a conflict).
   * @throws DatabaseFault whose `unknown` tells whether it may have been done
   */
  query<Row = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
    { deadline = this.timeout, wait = Math.min(deadline, this.timeout), left, boundsLocks = false }: Limits = {}
  ): Promise<Result<Row>> {
    const lockTimeout = boundsLocks ? undefined : lockTimeoutOf(deadline)
    return this.#enqueue((session) => session.query<Row>(text, values, deadline, lockTimeout), wait, left)
  }

  /**
   * Runs a transaction. What `run` throws undoes it. It must wait for nothing but its own statements. The server ends
   * it while its program is silent, and its waits for locks before the deadline (`55P03`, a conflict).
   * @throws DatabaseFault whose `unknown` is true only when the answer to the commit was lost
   */
  transaction<T>(
    run: (transaction: Transaction) => Promise<T>,
    {
      deadline = this.timeout,
      wait = Math.min(deadline, this.timeout),
      idle = Math.ceil(Math.min(deadline, this.timeout) * serversShare),
      left
    }: TransactionLimits = {}
  ): Promise<T> {
    // One text, so that it takes no trip more, and for this transaction alone, as a pooler hands the connection on.
    const begin = `begin; set local idle_in_transaction_session_timeout = ${idle};
      set local lock_timeout = ${lockTimeoutOf(deadline)}`
    return this.#enqueue(
      async (session) => {
        let result: T
        try {
          await session.query(begin, undefined, deadline)
          result = await run({ query: (text, values) => session.query(text, values, deadline) })
        } catch (error) {
          if (!session.fault) await session.query('rollback', undefined, deadline).catch(() => {})
          throw error instanceof DatabaseFault ? error.undone : error
        }
        await session.query('commit', undefined, deadline)
        return result
      },
      wait,
      left
    )
  }

  #enqueue<T>(work: (session: Session) => Promise<T>, wait: number, left: AbortSignal | undefined): Promise<T> {
    if (left?.aborted) return Promise.reject(leftFault())
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    let running: Session | undefined
    const task: Task = {
      async run(session) {
        running = session
        await work(session).then(resolve, reject)
        running = undefined
      },
      refuse: reject
    }
    const leave = (): void => {
      if (this.#leave(task)) reject(leftFault())
      else running?.destroy(leftFault())
    }
    let timer: NodeJS.Timeout | undefined
    const over = (): void => {
      clearTimeout(timer)
      left?.removeEventListener('abort', leave)
    }
    left?.addEventListener('abort', leave)
    void promise.then(over, over)
    const session = this.#idle.pop()
    if (session) this.#run(task, session)
    else if (this.#stopping.signal.aborted)
      reject(new DatabaseFault('closed', 'the connections to PostgreSQL are closed'))
    else if (this.#waiting.length >= mostWaiting)
      reject(new DatabaseFault('busy', `too much waits for a connection to PostgreSQL (${this.#address.shown})`))
    else {
      this.#waiting.push(task)
      timer = setTimeout(() => {
        if (!this.#leave(task)) return
        reject(
          this.trouble ??
            new DatabaseFault('busy', `no connection to PostgreSQL was free within ${wait} ms (${this.#address.shown})`)
        )
      }, wait)
    }
    return promise
  }

  #run(task: Task, session: Session): void {
    void task.run(session).then(() => this.#free(session))
  }

  #free(session: Session): void {
    if (session.fault) return
    if (this.#stopping.signal.aborted) return void session.close()
    const task = this.#waiting.shift()
    if (!task) return void this.#idle.push(session)
    this.#run(task, session)
  }

  /** Has a task wait no longer. Returns whether it did. */
  #leave(task: Task): boolean {
    const at = this.#waiting.indexOf(task)
    if (at >= 0) this.#waiting.splice(at, 1)
    return at >= 0
  }

  /** Keeps one connection until the lane is closed. */
  async #keepOne(): Promise<void> {
    const { signal } = this.#stopping
    for (let pause = firstPause; !signal.aborted;) {
      try {
        const session = await Session.open(this.#address, this.#name, this.#lineage)
        const began = performance.now()
        this.#all.add(session)
        this.#free(session)
        this.#trouble = (await session.ended).undone
        this.#all.delete(session)
        const at = this.#idle.indexOf(session)
        if (at >= 0) this.#idle.splice(at, 1)
        // A server that takes connections and drops them is not asked more often than one that takes none.
        if (performance.now() - began > longestPause) pause = firstPause
      } catch (error) {
        this.#trouble = DatabaseFault.of(error).undone
      }
      await sleep(pause * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {})
      pause = Math.min(pause * 2, longestPause)
    }
  }

  /** Waits for what is under way, refuses what waits, and ends the connections. */
  async close(): Promise<void> {
    this.#stopping.abort()
    for (const task of this.#waiting.splice(0))
      task.refuse(new DatabaseFault('closed', 'the connections to PostgreSQL are closed'))
    // A statement that is under way ends by its own deadline, and its connection with it.
    for (const session of this.#idle.splice(0)) void session.close()
    await Promise.all(this.#loops)
  }
}

function lockTimeoutOf(deadline: number): number {
  return Math.ceil(deadline * serversShare)
}

function leftFault(): DatabaseFault {
  return new DatabaseFault('left', 'nobody waits for the answer of PostgreSQL any more')
}
