// Asks the owner of open work to do something for a client that came to another gateway, and does what others ask for.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Errand, Work } from '../../works.ts'
import type { Database } from '../database/database.ts'

/** How long somebody waits for the owner, in milliseconds. */
const patience = 5000
/** How often it is looked for an answer where no notification comes, in milliseconds. */
const answerEvery = 250
/** How often the owner is asked about the same work at most, in milliseconds. */
const refreshEvery = 500
/** How long what is asked is of interest: much longer than anybody waits. */
const lasting = "interval '1 minute'"
/** How many are removed at once. */
const slice = 1000

interface Key {
  readonly tenant: string
  readonly project: string
  readonly id: string
}

/** Does what others ask for. Resolves with the work as it is then. */
export type Serve = (work: Work, what: Errand) => Promise<Work>

/** What others ask of open work of an owner. */
export function errandsOf(owner: string): string {
  return `sluice.errand e join sluice.work w on w.tenant = e.tenant and w.project = e.project and w.id = e.work
    where e.answer is null and e.asked > statement_timestamp() - ${lasting} and w.open and w.owner = ${owner}`
}

/** The errands of one gateway. */
export class Errands {
  readonly #database: Database
  readonly #own: (key: Key) => Work | undefined
  readonly #owner: string
  /** Those that wait for an answer, by the id of the errand. */
  readonly #waiting = new Map<string, () => void>()
  /** By work and what: errands under way, which all who ask meanwhile share. */
  readonly #asking = new Map<string, Promise<Work | undefined>>()
  /** Those of others that are being done. */
  readonly #doing = new Set<string>()
  readonly #unlisten: () => void
  #closed = false
  #serve: Serve | undefined

  /** `own`: open work of this gateway. */
  constructor(database: Database, owner: string, own: (key: Key) => Work | undefined) {
    this.#database = database
    this.#owner = owner
    this.#own = own
    this.#unlisten = database.listener.on('sluice_errand', (id) => {
      const waiting = id === undefined ? undefined : this.#waiting.get(id)
      if (waiting) waiting()
      else void this.look()
    })
  }

  /** Serves others from now on; undefined: no more. */
  set serve(serve: Serve | undefined) {
    this.#serve = serve
  }

  /** Asks the owner. Resolves with the work as it has it; with undefined when it does not answer. Never rejects. */
  ask(key: Key, what: Errand): Promise<Work | undefined> {
    const name = JSON.stringify([what, key.tenant, key.project, key.id])
    const under = this.#asking.get(name)
    if (under) return under
    const asked = this.#ask(key, what).catch(() => undefined)
    this.#asking.set(name, asked)
    const forget = (): void => void this.#asking.delete(name)
    // Whoever asks again at once is told the same.
    void asked.then(() => (what === 'refresh' ? setTimeout(forget, refreshEvery).unref() : forget()))
    return asked
  }

  /** Removes some that are over: whoever asked removes its own, unless it died. Returns whether there may be more. */
  async sweep(): Promise<boolean> {
    const { count } = await this.#database.changes.query(
      `delete from sluice.errand where id in (
         select id from sluice.errand where asked < statement_timestamp() - ${lasting} limit ${slice})`
    )
    return count === slice
  }

  close(): void {
    this.#unlisten()
    this.#closed = true
  }

  async #ask({ tenant, project, id }: Key, what: Errand): Promise<Work | undefined> {
    const errand = randomUUID()
    const { changes, reads } = this.#database
    await changes.query('select sluice.ask_errand($1, $2, $3, $4, $5)', [errand, tenant, project, id, what])
    try {
      for (const until = performance.now() + patience; performance.now() < until;) {
        await this.#heard(errand)
        const { rows } = await reads.query<{ answer: string | null; open: boolean }>(
          `select e.answer, coalesce(w.open, false) as open from sluice.errand e
           left join sluice.work w on w.tenant = e.tenant and w.project = e.project and w.id = e.work where e.id = $1`,
          [errand]
        )
        const [row] = rows
        if (row?.answer) return JSON.parse(row.answer) as Work
        // It has ended by now, and whoever asked reads it.
        if (!row?.open) return undefined
      }
      return undefined
    } finally {
      changes.query('delete from sluice.errand where id = $1', [errand]).catch(() => {})
    }
  }

  /** Resolves when there may be an answer. */
  async #heard(errand: string): Promise<void> {
    const heard = new AbortController()
    this.#waiting.set(errand, () => heard.abort())
    await sleep(answerEvery, undefined, { signal: heard.signal }).catch(() => {})
    this.#waiting.delete(errand)
  }

  /** Looks for what others ask of work of this gateway. Never rejects: what cannot be read now is read later. */
  async look(): Promise<void> {
    const serve = this.#serve
    if (!serve || this.#closed) return
    const { rows } = await this.#database.reads
      .query<Key & { errand: string; what: Errand }>(
        `select e.id as errand, e.what, e.tenant, e.project, e.work as id
         from ${errandsOf('$1')}`,
        [this.#owner]
      )
      .catch(() => ({ rows: [] }))
    for (const { errand, what, ...key } of rows) {
      if (this.#doing.has(errand)) continue
      this.#doing.add(errand)
      void this.#do(serve, errand, what, key).finally(() => this.#doing.delete(errand))
    }
  }

  async #do(serve: Serve, errand: string, what: Errand, key: Key): Promise<void> {
    try {
      const work = this.#own(key)
      if (!work) return
      const latest = await serve(work, what)
      await this.#database.changes.query('select sluice.answer_errand($1, $2)', [errand, JSON.stringify(latest)])
    } catch {
      // Whoever asked waits no longer than its patience.
    }
  }
}
