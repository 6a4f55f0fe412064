// What goes wrong between a gateway and PostgreSQL. No message has a password, or a value of a row.

/** What is wrong where the database did not say it itself: its own errors have a SQLSTATE. */
export type FaultCode = 'unreachable' | 'deadline' | 'lost' | 'busy' | 'closed'

/** The SQLSTATEs with which a server ends a connection: nobody knows what became of the statement under way. */
const ended = /^(?:57P0[1-5]|08...)$/

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
    const answered = severity !== undefined && !ended.test(code)
    return new DatabaseFault(answered ? code : 'lost', `PostgreSQL: ${message}`, { unknown: !answered, constraint })
  }

  /** The same fault, of what was not sent, or not committed. */
  get undone(): DatabaseFault {
    return new DatabaseFault(this.code, this.message, { constraint: this.constraint })
  }

  /** Whether the database did not answer. */
  get away(): boolean {
    return this.code.length !== 5 && this.code !== 'closed'
  }

  /** Whether the same may succeed when it is done again from the beginning: a deadlock, a conflict, a lock's time. */
  get conflict(): boolean {
    return this.code === '40P01' || this.code === '40001' || this.code === '55P03'
  }
}
