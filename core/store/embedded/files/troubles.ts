// The troubles of a store: each is logged once when it begins and once when it is over, and is shown while it lasts.
import type { StoreTrouble } from '../../store.ts'
import type { Logger } from '../../../telling/log.ts'

/** All possible troubles. With `refuses`, new requests are refused while it lasts. */
const ailments = {
  log: {
    begins: 'the commit log cannot be written: new requests are refused',
    over: 'the commit log is written again',
    refuses: true
  },
  segment: {
    begins: 'the next file of the journal cannot be made ready: the present one grows',
    over: 'the next file of the journal is made ready again',
    refuses: false
  },
  backlog: {
    begins: 'the commit log is full, as the database is not written: new requests are refused',
    over: 'the commit log has room again',
    refuses: true
  },
  database: {
    begins: 'the database cannot be written: what is charged is kept in the commit log',
    over: 'the database is written again',
    refuses: false
  },
  records: {
    begins: 'request records are not kept, as the disk is too slow or fails',
    over: 'request records are kept again',
    refuses: false
  },
  upkeep: {
    begins: 'what is old cannot be put away: the database grows',
    over: 'what is old is put away again',
    refuses: false
  },
  keeping: {
    begins: 'the journal cannot be put away: a start has more to read, and the journal takes more room',
    over: 'the journal is put away again',
    refuses: false
  },
  form: {
    begins: 'the journal could not be moved into segments: it stays in the database, and all goes on as before',
    over: 'the journal is in segments',
    refuses: false
  },
  history: {
    begins: 'what was spent before cannot be read: requests in those days and months are refused',
    over: 'what was spent before was read',
    refuses: false
  },
  balances: {
    begins: 'the memory that workers share is nearly full of balances: then requests that need new ones are refused',
    over: 'the memory that workers share has room for balances again',
    refuses: false
  }
} as const

/** The name of a trouble. */
export type Ailment = keyof typeof ailments

/** A trouble that the store has now. */
export interface Trouble extends StoreTrouble {
  ailment: Ailment
}

/** What errors of the system and of SQLite mean. The first pattern that matches applies. */
const causes: readonly (readonly [says: RegExp, cause: string, remedy: string, ofDisk?: true])[] = [
  [
    /^it was not taken over/,
    'it was tried once, by a start that nobody had asked for it',
    'say `store.journal.form: segments` and start again, which tries it again, or `database` to leave it as it is'
  ],
  [
    /ENOSPC|EDQUOT|no space|disk is full|fill the disk/i,
    'the disk is full',
    'make room on the disk of this file, or let the store keep less (store.requests, store.journal); nothing is lost, and it goes on by itself',
    true
  ],
  [
    /locked|SQLITE_BUSY/i,
    'another process holds the database',
    'end that process, or wait for it: `fuser FILE` names it'
  ],
  [
    /EACCES|EPERM|EROFS|readonly|read-only/i,
    'it may not be written',
    'let the user of this process write the file and its folder',
    true
  ],
  [
    /malformed|not a database|damaged/i,
    'it is damaged',
    'stop the gateway and run `sluice ledger verify`, or bring back a backup'
  ],
  [
    /places for balances/,
    'there are very many tenants, projects, members and keys with budgets',
    'start the gateway again: it makes twice as much room as what it finds needs'
  ],
  [/EIO|I\/O error|ioerr/i, 'the disk fails', 'look into the log of the kernel, and at the disk', true]
]

/** What an error means, and what to do about it. `ofDisk`: the disk is full, fails, or may not be written. */
interface Diagnosis {
  cause: string
  remedy: string
  ofDisk: boolean
}

/** Explains what an error of the disk or the database means. */
export function diagnose(error: string): Diagnosis {
  const [, cause = 'it fails', remedy = 'see the error', ofDisk = false] =
    causes.find(([says]) => says.test(error)) ?? []
  return { cause, remedy, ofDisk }
}

/**
 * Turns an error at a start into one that names the file, the cause and the remedy, if the system's own message names
 * none.
 */
export function explain(error: unknown, file: string): Error {
  const message = error instanceof Error ? error.message : String(error)
  const { cause, remedy, ofDisk } = diagnose(message)
  return ofDisk
    ? new Error(`${file} cannot be opened, as ${cause} (${message}): ${remedy}`, { cause: error })
    : (error as Error)
}

/** If a trouble comes again within this many milliseconds, it is logged only when it lasts. */
const calm = 10_000
/** How long such a trouble has to last before it is logged again, in milliseconds. */
const lasting = 1000

/** Keeps and logs the troubles of one store. */
export class Troubles {
  readonly log: Logger
  readonly #file: string
  readonly #current = new Map<
    Ailment,
    { trouble: Trouble; began: number; said: boolean; timer: NodeJS.Timeout | undefined }
  >()
  readonly #saidAt = new Map<Ailment, number>()

  constructor(log: Logger, file: string) {
    this.log = log
    this.#file = file
  }

  /** The present troubles, in the order in which they began. */
  get all(): Trouble[] {
    return [...this.#current.values()].map(({ trouble }) => trouble)
  }

  /** Reports a failure, whether it is the first or one of several. */
  begin(ailment: Ailment, error: string): void {
    const known = this.#current.get(ailment)
    const { cause, remedy } = diagnose(error)
    if (known) return void Object.assign(known.trouble, { error, cause, remedy })
    const { begins: text, refuses } = ailments[ailment]
    const trouble = { ailment, text, refuses, error, cause, remedy, since: Date.now() }
    const began = performance.now()
    const entry = { trouble, began, said: false, timer: undefined as NodeJS.Timeout | undefined }
    const say = (): void => {
      entry.said = true
      this.#saidAt.set(ailment, performance.now())
      const { cause, remedy } = trouble
      this.log[refuses ? 'error' : 'warn'](text, { store: this.#file, cause, remedy, error: trouble.error })
    }
    this.#current.set(ailment, entry)
    if (began - (this.#saidAt.get(ailment) ?? -Infinity) >= calm) say()
    else entry.timer = setTimeout(say, lasting).unref()
  }

  /** Reports that something works; ends its trouble if there is one. */
  over(ailment: Ailment): void {
    const known = this.#current.get(ailment)
    if (!known) return
    this.#current.delete(ailment)
    clearTimeout(known.timer)
    if (known.said)
      this.log.info(ailments[ailment].over, {
        store: this.#file,
        seconds: Number(((performance.now() - known.began) / 1000).toFixed(1))
      })
  }

  /** Logs that the store is closed while `bytes` of its commit log are not in the database. */
  left(bytes: number): void {
    this.log.warn('the database could not be brought up to date: the commit log keeps the rest for the next start', {
      store: this.#file,
      bytes
    })
  }

  /** Stops logging. */
  close(): void {
    for (const { timer } of this.#current.values()) clearTimeout(timer)
  }
}
