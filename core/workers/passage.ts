// Brings workers over to the next process: has each hand over, and passes on what it does to the store from then on.
import type { Line, Served } from '../store/distant/line.ts'
import type { KeptHold } from '../store/embedded/book/book.ts'
import { within } from './crew.ts'
import type { Crew } from './crew.ts'
import type { Member } from './member.ts'
import type { LeftByThread, Place, Threads } from './place.ts'

/** How long a worker may take to hand over, and to say what it goes on with, in milliseconds. Requests wait for it. */
const patience = 10_000

/** A worker that has handed over, or is about to. */
interface Passed {
  /** Its number for the next process. */
  readonly thread: number
  readonly line: Line
  /** The seat that it had. */
  readonly seat: number
  readonly released: (name: string, used: number | undefined) => void
  readonly store: Place['shared']
}

/** The passage of one process. */
export class Passage implements Threads {
  readonly #crew: Crew
  readonly #place: Place
  readonly #renewal: readonly [within: number, ...args: readonly unknown[]]
  readonly #passed = new Map<Member, Passed>()
  #last = 0
  #resume: () => void = () => {}
  #renewing = Promise.resolve()

  /** `renewal`: how long workers may take to leave when they are replaced, and what they are told then. */
  constructor(crew: Crew, place: Place, ...renewal: readonly [within: number, ...args: readonly unknown[]]) {
    this.#crew = crew
    this.#place = place
    this.#renewal = renewal
  }

  /** What a worker may call that has handed over: the functions of its deputy, by their names. */
  served(member: Member): Served {
    return {
      askThere: (name: string, args: readonly unknown[]) => {
        const { line, thread } = this.#passed.get(member)!
        return line.ask('as', thread, name, args)
      },
      tellThere: (name: string, args: readonly unknown[]) => {
        const { line, thread, released } = this.#passed.get(member)!
        if (name === 'release') released(...(args as [string, number | undefined]))
        line.tell('as', thread, name, args)
      }
    }
  }

  async leave(line: Line, released: Passed['released']): Promise<readonly LeftByThread[]> {
    this.#resume = await this.#crew.pause()
    const left = await Promise.all(this.#crew.members.map((member) => this.#leave(member, line, released)))
    await this.#crew.settled()
    return left.flatMap((one) => one ?? [])
  }

  async unsettled(): Promise<ReadonlyMap<number, readonly KeptHold[]>> {
    const { answers } = await this.#crew.ask<readonly KeptHold[]>(patience, 'unsettled')
    const found = new Map<number, readonly KeptHold[]>()
    for (const [member, { thread }] of this.#passed) {
      const holds = answers.get(member)
      if (holds) found.set(thread, holds)
      // What it still has is ended by the store.
      else await member.end('it did not say what it goes on with')
    }
    return found
  }

  goesOn(thread: number): boolean {
    return [...this.#passed.values()].some((passed) => passed.thread === thread)
  }

  renew(): void {
    this.#resume()
    this.#renewing = this.#renewing.then(() => this.#renewAll())
  }

  /** The thread of one that had handed over has ended. */
  async ended(member: Member): Promise<void> {
    const { line, thread, seat, store } = this.#passed.get(member)!
    this.#passed.delete(member)
    line.tell('gone', thread)
    await store.dismiss(seat)
  }

  async #leave(member: Member, line: Line, released: Passed['released']): Promise<LeftByThread | undefined> {
    const { seat } = member
    // One that has handed over already has its deputy in this process.
    if (member.over || seat === undefined) return undefined
    const thread = ++this.#last
    const store = this.#place.shared
    if (member.serves) {
      // What it calls may come before its answer.
      this.#passed.set(member, { thread, line, seat, released, store })
      const asked = member.line.ask<Omit<LeftByThread, 'thread' | 'claims'>>('handOver', thread)
      const left = await within(patience, asked).catch(() => undefined)
      if (left && !member.over) {
        member.seat = undefined
        return { ...left.value, thread, claims: store.claimsOf(seat) }
      }
    }
    await member.end('it did not hand over')
    this.#passed.delete(member)
    return undefined
  }

  /** One after another, so that the others accept connections. */
  async #renewAll(): Promise<void> {
    for (const member of Array.from(this.#passed.keys()))
      if (!member.over) await this.#crew.renew(member, ...this.#renewal)
  }
}
