// What goes wrong between a gateway and PostgreSQL. No message has a password, or a value of a row.

/**
 * What is wrong where the database did not say it itself: its own errors have a SQLSTATE. `unmade`: by a mistake of
 * ours a statement could not even be made.
 */
export type FaultCode =
  | 'unreachable'
  | 'deadline'
  | 'lost'
  | 'busy'
  | 'closed'
  | 'readonly'
  | 'replaced'
  | 'left'
  | 'unmade'

/** The SQLSTATEs with which a server ends a connection: nobody knows what became of the statement under way. */
const ended = /^(?:57P0[1-5]|25P0[34]|08...)$/
/** The severities with which it does so whatever the SQLSTATE: a commit may be done when its log cannot be flushed. */
const ends: ReadonlySet<string | undefined> = new Set(['FATAL', 'PANIC'])
/** The SQLSTATE of a server that takes no changes: another one may be behind the address by now. */
const readOnly = '25006'
/** The classes of SQLSTATEs that are about what was written: data, constraints, sizes, and what functions raise. */
const ofContent = /^(?:21|22|23|54|P0|SL)...$/

/** Those of a server that can do little at present: it lacks room or memory, is being ended, or is at fault itself. */
const unable = /^(?:53|57|58)...$/

/** An error of the database, or of the way there. */
export class DatabaseFault extends Error {
  override readonly name = 'DatabaseFault'
  /** A {@link FaultCode}, or a SQLSTATE. */
  readonly code: string
  /** Whether the database may have done what it was asked: it was sent, and no answer came. */
  readonly unknown: boolean
  /** The constraint that was violated. */
  readonly constraint: string | undefined

  constructor(
    code: string,
    message: string,
    { unknown = false, constraint }: { unknown?: boolean; constraint?: string | undefined } = {}
  ) {
    super(message)
    this.code = code
    this.unknown = unknown
    this.constraint = constraint
  }

  /** What became of a statement that failed. Of the server's error it takes what says nothing about rows. */
  static of(error: unknown): DatabaseFault {
    if (error instanceof DatabaseFault) return error
    const {
      code = 'lost',
      message,
      severity,
      constraint
    } = error as Error & Partial<Record<'code' | 'severity' | 'constraint', string>>
    if (code === readOnly) return new DatabaseFault('readonly', `PostgreSQL: ${message}`)
    const answered = severity !== undefined && !ends.has(severity) && !ended.test(code)
    // What it says of a value repeats the value.
    const said = code.startsWith('22') ? 'it refuses a value of this statement' : message
    const text = `PostgreSQL: ${said}${answered ? ` (${code})` : ''}`
    return new DatabaseFault(answered ? code : 'lost', text, { unknown: !answered, constraint })
  }

  /** The same fault, of what was not sent, or not committed. */
  get undone(): DatabaseFault {
    return new DatabaseFault(this.code, this.message, { constraint: this.constraint })
  }

  /** Whether the database did not answer, or can do nothing at present. */
  get away(): boolean {
    return unable.test(this.code) || (this.code.length !== 5 && this.code !== 'closed' && this.code !== 'unmade')
  }

  /**
   * Whether the same may succeed when it is done again from the beginning: a deadlock, a conflict, a lock's time, or a
   * server that takes no changes, whose connection is made anew.
   */
  get conflict(): boolean {
    return ['40P01', '40001', '55P03', 'readonly'].includes(this.code)
  }

  /** Whether what was to be written is why it was refused: other rows may be taken. */
  get ofContent(): boolean {
    return this.code === 'unmade' || ofContent.test(this.code)
  }
}
