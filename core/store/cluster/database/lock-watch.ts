// Looks at who holds the locks that a transaction waits for, by another connection: who works is waited for, however
// long it takes, and who does nothing any more is named.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../../telling/log.ts'
import type { Lane, Transaction } from './lane.ts'

/** The times of a watch, in milliseconds. */
export interface WatchTimes {
  /** Between two looks. */
  readonly look: number
  /** Between two lines of the log. */
  readonly tell: number
  /** How long somebody may hold a lock without doing anything. */
  readonly idle: number
}

const usual: WatchTimes = { look: 1000, tell: 5000, idle: 120_000 }

/** Who holds a lock and waits for nobody. What the role of this program may not see is null. */
interface Holder {
  /** Of the server's process; 0 for a prepared transaction, which has none. */
  readonly pid: number
  readonly lock: string | null
  readonly application: string | null
  readonly role: string | null
  readonly client: string | null
  readonly state: string | null
  readonly wait: string | null
  readonly command: string | null
  readonly held_ms: number | null
  readonly idle_ms: number | null
}

/** The watch of one program over its own waits. */
export class LockWatch {
  readonly #lane: Pick<Lane, 'query'>
  readonly #log: Logger
  readonly #times: WatchTimes
  readonly #stopping = new AbortController()
  readonly #loop: Promise<void>
  /** The process of the server in which the transaction runs. */
  #waiting: number | undefined
  #toldAt = -Infinity
  /** Since when each holder was seen to do nothing at every look, by performance.now(). */
  #stalled = new Map<number, number>()
  /** When somebody was last seen at work who holds what is waited for, by performance.now(); else when it began. */
  #worked = performance.now()
  #problem: string | undefined

  /** `lane`: has a connection beside that of the transaction. */
  constructor(lane: Pick<Lane, 'query'>, log: Logger, times: WatchTimes = usual) {
    this.#lane = lane
    this.#log = log
    this.#times = times
    this.#loop = this.#follow()
  }

  /** Nobody was seen at work for twice as long as somebody may do nothing: what is waited for is not known. */
  get hopeless(): boolean {
    return performance.now() > this.#worked + 2 * this.#times.idle
  }

  /** Who holds a lock and does nothing, and what to do; undefined while nobody does so for long. */
  get problem(): string | undefined {
    return this.#problem
  }

  /** Watches a transaction from now on. It keeps its process of the server, also behind a pooler. */
  async watch({ query }: Transaction): Promise<void> {
    this.#problem = undefined
    this.#waiting = (await query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!.pid
  }

  /** The transaction is over. */
  rest(): void {
    this.#waiting = undefined
  }

  async close(): Promise<void> {
    this.#stopping.abort()
    await this.#loop
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      await sleep(this.#times.look, undefined, { signal }).catch(() => {})
      // Who cannot be looked at is waited for as long as somebody who does nothing.
      if (!signal.aborted && this.#waiting !== undefined) await this.#look(this.#waiting).catch(() => {})
    }
  }

  async #look(pid: number): Promise<void> {
    const { rows } = await this.#lane.query<Holder>(
      `with recursive chain as (
         select unnest(pg_blocking_pids($1)) as pid, 1 as length
         union select unnest(pg_blocking_pids(c.pid)), c.length + 1 from chain c where c.pid <> 0 and c.length < 10
       ), holder as (
         select distinct pid from chain where pid = 0 or cardinality(pg_blocking_pids(pid)) = 0
       )
       select h.pid, (select coalesce(n.nspname || '.' || c.relname, l.locktype) from pg_locks l
           left join pg_class c on c.oid = l.relation left join pg_namespace n on n.oid = c.relnamespace
           where l.pid = $1 and not l.granted limit 1) as lock,
         a.application_name as application, a.usename as role, coalesce(a.client_addr::text, 'local') as client, a.state,
         a.wait_event_type as wait, substring(a.query from '^\\s*(\\w+(?:\\s+\\w+)?)') as command,
         (extract(epoch from clock_timestamp() - a.xact_start) * 1000)::float8 as held_ms,
         (extract(epoch from clock_timestamp() - a.state_change) * 1000)::float8 as idle_ms
       from holder h left join pg_stat_activity a using (pid)`,
      [pid]
    )
    if (this.#waiting === pid) this.#judge(rows)
  }

  #judge(holders: readonly Holder[]): void {
    const now = performance.now()
    const idle = holders.filter((holder) => !works(holder))
    if (idle.length < holders.length) this.#worked = now
    this.#stalled = new Map(idle.map(({ pid }) => [pid, this.#stalled.get(pid) ?? now]))
    const since = ({ pid, state, idle_ms: ms }: Holder): number =>
      isIdle(state) ? (ms ?? 0) : now - this.#stalled.get(pid)!
    const stuck = idle.find((holder) => since(holder) >= this.#times.idle)
    if (stuck) this.#problem = problemOf(stuck, since(stuck))
    if (holders.length === 0 || now - this.#toldAt < this.#times.tell) return
    this.#toldAt = now
    this.#log.info('the schema waits for a lock that another program holds', {
      lock: nameOf(holders[0]!),
      held_by: holders.map(({ pid, application, role, client, state, command, held_ms: held, idle_ms: ms }) => ({
        ...(pid === 0 ? { prepared: true } : { pid, application, role, client, state, command }),
        held_seconds: seconds(held),
        ...(isIdle(state) && { idle_seconds: seconds(ms) })
      }))
    })
  }
}

function isIdle(state: string | null): boolean {
  return state !== null && state.startsWith('idle')
}

/** Whether a holder does something: who waits for its client does not, nor does one of which nothing is seen. */
function works({ state, wait }: Holder): boolean {
  return state !== null && !isIdle(state) && wait !== 'Client'
}

function problemOf(holder: Holder, ms: number): string {
  const { pid, application, role, client, state } = holder
  const lock = `a lock on ${nameOf(holder)}`
  const time = `${seconds(ms)} seconds`
  if (pid === 0)
    return `a prepared transaction has held ${lock} for ${time}: find it in pg_prepared_xacts, and end it by COMMIT PREPARED or ROLLBACK PREPARED`
  const who = `process ${pid} of PostgreSQL (application ${application || 'without a name'}, role ${role ?? 'unknown'}, client ${client})`
  const end = `end its transaction, or the process: select pg_terminate_backend(${pid})`
  if (state === null)
    return `${who} has held ${lock} for ${time}, and what it does cannot be seen: grant pg_read_all_stats to the role of Sluice, or ${end}`
  const does = isIdle(state) ? 'idle in a transaction' : 'waiting for a client that does not read or write'
  return `${who} holds ${lock} and has been ${does} for ${time}: ${end}`
}

function nameOf({ lock }: Holder): string {
  return lock === null || lock === 'advisory' ? 'the schema' : lock
}

function seconds(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms / 1000)
}
