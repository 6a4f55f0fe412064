// The workers of a gateway as one: starts them, asks them, and starts another one in the place of each that ends.
import { EventEmitter, once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../telling/log.ts'
import { Member } from './member.ts'
import type { Recruit } from './member.ts'
import { Pauses } from './pauses.ts'
import type { Reserve } from './reserve.ts'
import { thrownText } from '../thrown.ts'

/** How often it is looked who hangs, in milliseconds, and how many times in a row one is found before it is ended. */
const looks = 500
const times = 4
/** How long a worker may take to say whether it can do what it is asked to prepare, in milliseconds. */
const preparing = 60_000
/** How long one may take to make a change that it is told of, in milliseconds. Then it hangs. */
const changing = 5000

/** What a crew works with. */
export interface CrewParts {
  readonly threads: Pick<Reserve, 'take' | 'close'>
  /** Makes what the worker of this number is to be started with, which has a seat from then on. */
  recruit(number: number): Recruit
  /**
   * Called when the thread of a worker has ended: takes over what it has left. Resolves when that is done. It does not
   * reject.
   */
  bringHome(member: Member): Promise<void>
  /**
   * The seats whose threads hang. Those of them are ended that are among these for some time: where the whole process
   * stood still, all seem to hang until they say something again.
   */
  hanging(): readonly number[]
  /** Called when a worker serves from now on, and when one does so no more. */
  onChange?(): void
  readonly log: Logger
  /** How long the first pause is before one that ended is replaced, in milliseconds. Default 100. */
  readonly pause?: number
}

/** What workers answered, and the numbers of those who did not in time. */
export interface Answers<T> {
  readonly answers: ReadonlyMap<Member, T>
  readonly missing: readonly number[]
}

/** The place of a worker. */
export interface CrewPlace {
  readonly number: number
  /** Whether one serves there, and since when. */
  readonly serves: boolean
  readonly since: number | undefined
  /** How many have ended there while the gateway went on, and the latest of these ends. */
  readonly ends: number
  readonly last: { readonly time: number; readonly reason: string } | undefined
}

/** The workers of one gateway. */
export class Crew {
  readonly size: number
  readonly #parts: CrewParts
  readonly #pauses: Pauses
  /** By number, from when its thread starts until what it left is brought home. */
  readonly #members = new Map<number, Member>()
  /** What is done about workers that ended. */
  readonly #returns = new Set<Promise<void>>()
  readonly #returned = new WeakMap<Member, Promise<void>>()
  /** Those that another one replaces: they end what they have, and take no more. */
  readonly #renewed = new WeakSet<Member>()
  /** By the number of the place. */
  readonly #ends = new Map<number, Pick<CrewPlace, 'ends' | 'last'>>()
  /** Tells of the number of a place when a worker serves there from now on. */
  readonly #filled = new EventEmitter()
  readonly #closing = new AbortController()
  /** Whether all have served. Before, one that ends is not replaced: the gateway does not start then. */
  #started = false
  #watching: NodeJS.Timeout | undefined
  /** The change that is under way. No worker starts meanwhile: it would not know of it. */
  #change: Promise<unknown> = Promise.resolve()
  /** How many times in a row workers were found to hang. */
  readonly #suspects = new Map<Member, number>()

  constructor(size: number, parts: CrewParts) {
    this.size = size
    this.#parts = parts
    this.#pauses = new Pauses(parts.pause)
  }

  /**
   * Starts all, the first one alone unless all may start `together`. `first` is told what that says when it serves.
   * Resolves when all serve.
   * @throws Error saying which one could not start, and why
   */
  async start(first: (said: unknown) => void, together = false): Promise<void> {
    this.#watching = setInterval(() => this.#look(), looks).unref()
    const begun = this.#begin(1).then(first)
    if (!together) await begun
    await Promise.all([begun, ...Array.from({ length: this.size - 1 }, (_, i) => this.#begin(i + 2))])
    this.#started = true
    for (const number of this.away) if (!this.#members.has(number)) void this.#replace(number)
  }

  /** The numbers of the places at which nobody takes connections at present. */
  get away(): readonly number[] {
    const serving = new Set(this.serving.map(({ number }) => number))
    return Array.from({ length: this.size }, (_, i) => i + 1).filter((number) => !serving.has(number))
  }

  /** The places of all workers, in order. Times are in Unix milliseconds. */
  get places(): readonly CrewPlace[] {
    return Array.from({ length: this.size }, (_, i) => {
      const number = i + 1
      const member = this.#members.get(number)
      const serves = member?.serves === true
      const { ends, last } = this.#ends.get(number) ?? { ends: 0, last: undefined }
      return { number, serves, since: serves ? member.since : undefined, ends, last }
    })
  }

  /** The worker of this number; undefined while its place is empty. */
  member(number: number): Member | undefined {
    return this.#members.get(number)
  }

  /** Asks all that serve. Who has not answered within `ms` is missing, and who does not serve. */
  async ask<T>(ms: number, name: string, ...args: readonly unknown[]): Promise<Answers<T>> {
    const answers = new Map<Member, T>()
    await Promise.all(
      this.members.map(async (member) => {
        if (!member.serves) return
        const answer = await within(ms, member.line.ask<T>(name, ...args)).catch(() => undefined)
        if (answer) answers.set(member, answer.value)
      })
    )
    const answered = new Set(Array.from(answers.keys(), ({ number }) => number))
    const missing = Array.from({ length: this.size }, (_, i) => i + 1).filter((number) => !answered.has(number))
    return { answers, missing }
  }

  /** Tells all. One that does not serve yet hears it when it does. */
  tell(name: string, ...args: readonly unknown[]): void {
    for (const member of this.#members.values()) if (!member.over) member.line.tell(name, ...args)
  }

  /**
   * Makes a change in two steps, so that all make it or none. Each worker is asked to `prepare` it. When all can,
   * `commit` is called, and each is told to `swap`; one that does not is ended, and begins anew with what the
   * supervisor has. When one cannot, each is told to `drop` what it prepared.
   * @throws Error as the first one that cannot, or as `commit`
   */
  change(prepare: unknown, commit: () => void): Promise<void> {
    const result = this.#change.then(() => this.#make(prepare, commit))
    this.#change = result.catch(() => {})
    return result
  }

  /** Starts nobody from now on, until the function is called that is returned. Resolves when no change is under way. */
  async pause(): Promise<() => void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const before = this.#change
    this.#change = before.then(() => promise)
    await before
    return resolve
  }

  /** Resolves when all was brought home that workers have left which have ended until now. */
  async settled(): Promise<void> {
    await Promise.all(
      [...this.#members.values()].flatMap((member) => (member.over ? (this.#returned.get(member) ?? []) : []))
    )
  }

  /**
   * Puts another worker in the place of one, which is asked to `leave` by its own means, and ended after `ms`
   * milliseconds. A neighbour accepts connections meanwhile. Resolves when another one serves there, or the crew
   * closes.
   */
  async renew(member: Member, ms: number, ...args: readonly unknown[]): Promise<void> {
    const { number } = member
    this.#renewed.add(member)
    this.#parts.onChange?.()
    await within(ms, member.line.ask('leave', ...args)).catch(() => undefined)
    await member.end('another one takes its place')
    if (this.#members.get(number)?.serves) return
    await once(this.#filled, String(number), { signal: this.#closing.signal }).catch(() => {})
  }

  /** All that have a thread. */
  get members(): readonly Member[] {
    return [...this.#members.values()]
  }

  /**
   * Ends all: each that serves is asked to `leave` by its own means, for which it has `ms` milliseconds, and is ended
   * then. Resolves when all that they left was brought home, with what they answered.
   */
  async close<T>(ms: number, ...args: readonly unknown[]): Promise<readonly T[]> {
    this.#closing.abort()
    clearInterval(this.#watching)
    const answers = await Promise.all(
      [...this.#members.values()].map(async (member) => {
        const asked = member.serves ? within(ms, member.line.ask<T>('leave', ...args)) : undefined
        const left = await asked?.catch(() => undefined)
        await member.end('the gateway stops')
        return left ? [left.value] : []
      })
    )
    await Promise.all(this.#returns)
    await this.#parts.threads.close()
    return answers.flat()
  }

  /** Those that take connections. One that is replaced does no more. */
  get serving(): readonly Member[] {
    return this.members.filter((member) => member.serves && !this.#renewed.has(member))
  }

  /** @throws Error when it cannot start */
  async #begin(number: number): Promise<unknown> {
    return this.#serving(this.#appoint(number))
  }

  /** @throws Error when there is no thread for it, or no seat */
  #appoint(number: number): Member {
    const { threads, recruit, log } = this.#parts
    const own = log.child({ worker: number })
    const thread = threads.take(number)
    let member: Member
    try {
      member = new Member(thread, recruit(number), (said) => {
        if (said.kind === 'log') own[said.level](said.message, said.fields)
      })
    } catch (error) {
      void thread.terminate()
      throw error
    }
    this.#members.set(number, member)
    const returned = member.ended.then((reason) => this.#ended(member, reason))
    this.#returns.add(returned)
    this.#returned.set(member, returned)
    void returned.then(() => this.#returns.delete(returned))
    return member
  }

  /** @throws Error when it ends before it serves */
  async #serving(member: Member): Promise<unknown> {
    const { number } = member
    try {
      const said = await member.serving()
      this.#pauses.began(number)
      this.#filled.emit(String(number))
      this.#parts.onChange?.()
      return said
    } catch (error) {
      throw new Error(`worker ${number} could not start: ${(error as Error).message}`, { cause: error })
    }
  }

  /** Never rejects. */
  async #ended(member: Member, reason: string): Promise<void> {
    const { number } = member
    const { log, bringHome } = this.#parts
    const goesOn = (): boolean => this.#started && !this.#closing.signal.aborted
    this.#parts.onChange?.()
    if (goesOn() && !this.#renewed.has(member)) {
      this.#ends.set(number, { ends: (this.#ends.get(number)?.ends ?? 0) + 1, last: { time: Date.now(), reason } })
      log.error('a worker has ended: another one takes its place', { worker: number, reason })
    }
    await bringHome(member)
    this.#members.delete(number)
    this.#suspects.delete(member)
    if (goesOn()) void this.#replace(number)
  }

  /** Never rejects. */
  async #replace(number: number): Promise<void> {
    try {
      await wait(this.#pauses.next(number), undefined, { signal: this.#closing.signal })
    } catch {
      return
    }
    let change
    do await (change = this.#change)
    while (change !== this.#change)
    if (this.#closing.signal.aborted) return
    let member: Member
    try {
      member = this.#appoint(number)
    } catch (error) {
      this.#parts.log.error('no worker could be started in the place of one that had ended: it is tried again', {
        worker: number,
        error: thrownText(error)
      })
      return this.#replace(number)
    }
    try {
      await this.#serving(member)
      this.#parts.log.info('a worker serves in the place of one that had ended', { worker: number })
    } catch {
      // Its end was told, and is followed by the next try.
    }
  }

  async #make(prepare: unknown, commit: () => void): Promise<void> {
    const members = [...this.#members.values()].filter(({ over }) => !over)
    const drop = (): void => {
      for (const { line } of members) line.tell('drop')
    }
    const results = await Promise.all(
      members.map(async (member) => {
        try {
          const answer = await within(preparing, member.line.ask<void>('prepare', prepare))
          if (!answer) throw new Error(`worker ${member.number} did not answer within ${preparing / 1000} seconds`)
          return undefined
        } catch (error) {
          // One that has ended begins anew with what is in use then.
          return member.over ? undefined : error
        }
      })
    )
    try {
      const refusal = results.find((one) => one !== undefined)
      if (refusal !== undefined) throw refusal
      commit()
    } catch (error) {
      drop()
      throw error
    }
    await Promise.all(
      members.map(async (member) => {
        const swapped = await within(changing, member.line.ask('swap')).catch(() => undefined)
        if (!swapped) await member.end('it did not take over a change of the configuration')
      })
    )
  }

  /** Ends those who hang. One that does not serve yet may need long for that on a busy machine: it has its own time. */
  #look(): void {
    const { hanging, log } = this.#parts
    const seats = hanging()
    for (const member of this.#members.values()) {
      const { seat } = member
      const found =
        member.serves && seat !== undefined && seats.includes(seat) ? (this.#suspects.get(member) ?? 0) + 1 : 0
      if (found === 0) this.#suspects.delete(member)
      else this.#suspects.set(member, found)
      if (found !== times) continue
      log.error('a worker hangs: it is ended', { worker: member.number })
      void member.end('it hung')
    }
  }
}

/** Resolves with the value, or with undefined after the time. @throws as the promise */
export async function within<T>(ms: number, promise: Promise<T>): Promise<{ readonly value: T } | undefined> {
  let timer: NodeJS.Timeout | undefined
  try {
    return await Promise.race([
      promise.then((value) => ({ value })),
      new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), ms)))
    ])
  } finally {
    clearTimeout(timer)
  }
}
