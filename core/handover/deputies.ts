// The deputies of a process that has handed over: one for each of its threads that has exchanges.
import { GatewayError } from '../errors.ts'
import type { Call, Served } from '../store/distant/line.ts'
import type { Book } from '../store/embedded/book/book.ts'
import type { Lease } from '../store/limits.ts'
import { Deputy } from './deputy.ts'
import type { DeputyParts } from './deputy.ts'
import type { Part } from './messages.ts'

/** All deputies of one process. */
export class Deputies {
  readonly #of: ReadonlyMap<number, { readonly deputy: Deputy; readonly served: Served }>

  /** `leases`: those that the process had taken, by their names. `book`: has its holds. */
  constructor(
    parts: readonly Part[],
    leases: ReadonlyMap<string, Lease>,
    deputyParts: DeputyParts,
    book: Pick<Book, 'find' | 'left'>
  ) {
    this.#of = new Map(
      parts.map(({ thread, leases: names, ...left }) => {
        const own = new Map(names.flatMap((name) => (leases.has(name) ? [[name, leases.get(name)!] as const] : [])))
        const deputy = new Deputy(deputyParts, book, { ...left, leases: own })
        return [thread, { deputy, served: deputy.served }]
      })
    )
  }

  /** The functions that the process may call: those of the deputies, each by its thread. */
  get served(): Served {
    return {
      as: (thread: number, name: string, args: readonly never[]) => this.#servedOf(thread)[name]!(...args),
      gone: (thread: number) => this.gone(thread)
    }
  }

  /** A thread of the process has ended. */
  gone(thread: number): void {
    this.#of.get(thread)?.deputy.end()
  }

  /** @throws GatewayError `billing_unavailable` for a thread that has ended before it had handed over */
  #servedOf(thread: number): Served {
    const found = this.#of.get(thread)
    if (found) return found.served
    throw new GatewayError('billing_unavailable', 'The request cannot be accounted for any more. Try again.', {
      retryAfterMs: 1000
    })
  }

  /** Which calls of a batch are to be done here that nobody answered there; see `Line.divert`. */
  again(calls: readonly Call[], isOpen: (call: Call) => boolean): readonly Call[] {
    const ends = calls.filter((call) => isOf('end', call))
    const open = ends.filter(({ args }) => {
      const [thread, , of] = args as AsThread
      const [exchange, part] = of as readonly string[]
      return this.#of.get(thread)?.deputy.has(exchange!, part!)
    })
    // With its ends all that was told is on disk, such as their records.
    const done = ends.length > 0 && open.length === 0
    return calls.filter((call) =>
      // What was answered is not done twice.
      call.id === undefined ? !done : isOpen(call) && !(done && isOf('end', call))
    )
  }

  /** The process is gone. */
  end(): void {
    for (const { deputy } of this.#of.values()) deputy.end()
  }
}

/** The arguments of a call that a thread makes. */
type AsThread = readonly [thread: number, name: string, args: readonly unknown[]]

function isOf(called: string, { name, args }: Call): boolean {
  return name === 'as' && args[1] === called
}
