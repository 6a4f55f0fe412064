// What the database refuses for good is told, and an end is kept for a program that can write it.
import type { Logger } from '../../../../telling/log.ts'
import type { DatabaseFault } from '../../database/fault.ts'
import { isTaken } from '../sending/faults.ts'
import type { Queue } from '../sending/operations.ts'
import { recordOf } from '../sending/outage.ts'
import type { OwnLog } from '../sending/own-log.ts'
import type { Prices } from '../holds/prices.ts'
import type { OwnHolds } from './own-holds.ts'

/** What it needs of its node. */
export interface RefusalParts {
  readonly prices: Pick<Prices, 'find' | 'refuse'>
  readonly holds: Pick<OwnHolds, 'leave' | 'tooLate'>
  readonly ownLog: Pick<OwnLog, 'keep'>
  /** Where that log is. */
  readonly folder: string
  readonly log: Logger
}

/** The refusals of one start. */
export class Refusals {
  readonly #parts: RefusalParts
  /** The requests whose ends are refused. */
  readonly #ends: string[] = []

  constructor(parts: RefusalParts) {
    this.#parts = parts
  }

  /** Which ends wait for another program; undefined when none do. */
  get text(): string | undefined {
    const [first] = this.#ends
    if (first === undefined) return undefined
    const others = this.#ends.length > 1 ? ` and of ${this.#ends.length - 1} more` : ''
    return `the database refuses the end of the request ${first}${others}: what it holds stays held, and the end is kept in ${this.#parts.folder}`
  }

  /** Takes one operation that is refused by itself. */
  take({ prices, ends, joined, touches, admissions, restored }: Queue, fault: DatabaseFault): void {
    const { message: error } = fault
    const { log, holds, ownLog } = this.#parts
    const told = 'the database refuses'
    for (const { version } of prices) {
      this.#parts.prices.refuse(version)
      log.error(`${told} a price`, { price: version, error })
    }
    for (const { hold } of [...touches.values(), ...admissions])
      log.error(`${told} a request`, { exchange: hold.requestId, part: hold.part, error })
    for (const end of [...ends, ...joined]) {
      const { requestId: exchange, part, charged } = end
      // Others were first: it is compared with what they have written.
      if (isTaken(fault) && (end.corrects || restored.length > 0)) {
        holds.tooLate(end)
        continue
      }
      holds.leave(end)
      this.#ends.push(exchange)
      log.error(`${told} the end of a request`, { exchange, part, would_be_nano: String(charged), error })
      ownLog.keep(recordOf([end], [], this.#parts.prices.find)).then(
        () => end.done(),
        (failed: Error) => end.failed(failed)
      )
    }
  }
}
