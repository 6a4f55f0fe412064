// Redis as the limiter asks it: each question is answered within one timeout or not at all, and while Redis does not do
// its work nothing is asked.
import type { Logger } from '../../../telling/log.ts'
import type { Place } from './address.ts'
import type { Connection } from './asker.ts'
import { connect } from './connection.ts'
import { isOfKeys, reasonOf } from './failure.ts'
import type { Reply } from './replies.ts'
import { run } from './script.ts'
import type { Call } from './script.ts'

/** Times in milliseconds. */
export interface RedisTimes {
  /** Until an answer must be there. */
  readonly command: number
  /** Until a connection must be there. */
  readonly connect: number
}

/** What Redis is used for, as far as it has to be known here. */
export interface Duty {
  /** A script that writes, as Redis has to be able to. It is run to see whether Redis does its work. */
  readonly probe: Call
  /** Called with each answer to the probe. */
  probed(reply: Reply): void
  /**
   * Called when Redis does its work again: it may be told what it has to know before anybody asks. It is usable when
   * `ready` is called, unless it is gone again by then.
   */
  returned(ready: () => void): void
  /** Called when it is not usable any more. */
  gone(): void
}

/** How Redis is, for operators. */
export interface RedisHealth {
  readonly usable: boolean
  /** Unix milliseconds: since when it is so. */
  readonly since: number
  /** Why it is not usable; null when it is. It repeats nothing secret. */
  readonly reason: string | null
}

/** Who hears of the answer to a question. None may throw. */
export interface Hearer {
  /**
   * Called once. Undefined when there is no answer within the time of a command, and nobody knows whether the script
   * ran; or when it fails on what its keys have, which concerns nobody else.
   */
  answered(reply: Reply | undefined): void
  /** Hears of an answer that comes after all. */
  late?(reply: Reply): void
}

/** Something that was asked, at a time of `performance.now()`. */
interface Question {
  readonly at: number
  readonly hearer: Hearer
  over: boolean
}

/** Milliseconds between two probes. */
const probeEvery = 250
/** How long a probe may be without an answer until the connection is made anew, in milliseconds. */
const silence = 1000
/** How often the log is told of keys that have something else, in milliseconds. */
const complainEvery = 60_000
/** The first and the longest pause before connecting again, in milliseconds. */
const pauses = { first: 20, longest: 500 }

/** One Redis. It connects by itself, again and again until it is closed. */
export class Redis {
  readonly #place: Place
  readonly #times: RedisTimes
  readonly #duty: Duty
  readonly #log: Logger
  #connection: Connection | undefined
  #usable = false
  /** Its return, until it is usable or gone again. */
  #return: object | undefined
  #since = Date.now()
  #reason: string | null = 'not connected yet'
  /** Those that wait for their answers, the oldest first. Of a cluster some behind it may be over. */
  #questions: Question[] = []
  #deadline: NodeJS.Timeout | undefined
  /** The next probe, or the end of patience with the one that was sent. */
  #probing: NodeJS.Timeout | undefined
  #reconnecting: NodeJS.Timeout | undefined
  #pause = pauses.first
  #closed = false
  readonly #closing = new AbortController()
  /** Whether the log has it that Redis is not usable, and why. */
  #told = false
  /** When the log was told of a key last. */
  #complained = -Infinity

  constructor(place: Place, times: RedisTimes, duty: Duty, log: Logger) {
    this.#place = place
    this.#times = times
    this.#duty = duty
    this.#log = log
    void this.#connect()
  }

  /** Whether something may be asked. */
  get usable(): boolean {
    return this.#usable
  }

  /** Whether it is usable, or is told what it has to know before. */
  get hears(): boolean {
    return this.#usable || this.#return !== undefined
  }

  get health(): RedisHealth {
    return { usable: this.#usable, since: this.#since, reason: this.#reason }
  }

  /** Runs a script, once. Only asked while it `hears`. */
  ask(call: Call, hearer: Hearer): void {
    const connection = this.#connection!
    const question: Question = { at: performance.now(), hearer, over: false }
    this.#questions.push(question)
    this.#deadline ??= this.#watch(this.#times.command)
    run(connection, call, {
      done: (reply) => {
        if (question.over) hearer.late?.(reply)
        else this.#answer(question, reply)
      },
      failed: (error) => {
        // Whoever hears that there is no answer asks no more.
        if (isOfKeys(error)) this.#complain(error)
        else if (connection === this.#connection) this.#failed(error)
        if (!question.over) this.#answer(question, undefined)
      }
    })
  }

  #answer(question: Question, reply: Reply | undefined): void {
    question.over = true
    while (this.#questions[0]?.over) this.#questions.shift()
    question.hearer.answered(reply)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#reconnecting)
    this.#giveUp('closed')
    this.#drop()
    this.#closing.abort()
  }

  /** Looks after `ms` for questions that waited too long. */
  #watch(ms: number): NodeJS.Timeout {
    // Answers that have arrived are read before the time of their questions is said to be over.
    return setTimeout(() => setImmediate(() => this.#checkDeadlines()), ms).unref()
  }

  #checkDeadlines(): void {
    this.#deadline = undefined
    const [oldest] = this.#questions
    if (!oldest) return
    const left = oldest.at + this.#times.command - performance.now()
    if (left > 0) this.#deadline = this.#watch(Math.ceil(left))
    else {
      this.#giveUp('no answer in time')
      this.#probe()
    }
  }

  /** Asks nothing any more until a probe succeeds. Nobody waits any longer for what was asked. */
  #giveUp(reason: string): void {
    this.#return = undefined
    if (this.#usable) {
      this.#usable = false
      this.#since = Date.now()
      this.#duty.gone()
    }
    this.#reason = reason
    if (!this.#told && !this.#closed) this.#log.warn('Redis does not keep the limits at present', { reason })
    this.#told = true
    const questions = this.#questions
    this.#questions = []
    clearTimeout(this.#deadline)
    this.#deadline = undefined
    for (const question of questions) if (!question.over) this.#answer(question, undefined)
  }

  /** A script met what somebody else must have written, or the key of another server. All others go on. */
  #complain(error: unknown): void {
    const now = performance.now()
    if (now - this.#complained < complainEvery) return
    this.#complained = now
    this.#log.warn('Redis does not keep some keys of the limits', { reason: reasonOf(error) })
  }

  /** A command was refused, or lost with its connection. */
  #failed(error: unknown): void {
    if (this.#closed) return
    const reason = reasonOf(error)
    this.#giveUp(reason)
    // A replica, which a master may have become: only a new connection leads to the master. And whose answers are
    // those of something else may have more of them.
    if (reason === 'READONLY' || reason === 'PROTOCOL') this.#lost(this.#connection)
    else this.#schedule()
  }

  async #connect(): Promise<void> {
    let lost = false
    let connection: Connection | undefined
    try {
      connection = await connect({
        place: this.#place,
        timeout: this.#times.connect,
        signal: this.#closing.signal,
        lost: (error) => {
          lost = true
          this.#giveUp(reasonOf(error))
          if (connection) this.#lost(connection)
        }
      })
    } catch (error) {
      if (!this.#closed) this.#giveUp(reasonOf(error))
    }
    if (connection && !lost && !this.#closed) {
      this.#connection = connection
      this.#probe()
    } else {
      connection?.destroy()
      if (!this.#closed) this.#reconnect()
    }
  }

  /** Makes the connection anew, unless it is not the present one. */
  #lost(connection: Connection | undefined): void {
    if (this.#closed || !connection || connection !== this.#connection) return
    this.#drop()
    this.#reconnect()
  }

  #drop(): void {
    clearTimeout(this.#probing)
    this.#probing = undefined
    const connection = this.#connection
    this.#connection = undefined
    connection?.destroy()
  }

  #reconnect(): void {
    // Not all nodes at the same time.
    const pause = this.#pause * (0.5 + Math.random())
    this.#pause = Math.min(2 * this.#pause, pauses.longest)
    this.#reconnecting = setTimeout(() => void this.#connect(), pause)
  }

  /** Probes in a moment, unless that is to be already. */
  #schedule(): void {
    if (this.#connection && !this.#usable) this.#probing ??= setTimeout(() => this.#sendProbe(), probeEvery)
  }

  /** Probes now, unless a probe has no answer yet or the next one is near. */
  #probe(): void {
    if (this.#connection && !this.#usable && !this.#probing) this.#sendProbe()
  }

  #sendProbe(): void {
    const connection = this.#connection!
    const sent = performance.now()
    let answered = false
    const giveUp = (): void => {
      if (!answered) this.#lost(connection)
    }
    this.#probing = setTimeout(() => setImmediate(giveUp), silence)
    run(connection, this.#duty.probe, {
      done: (reply) => {
        answered = true
        if (connection !== this.#connection) return
        clearTimeout(this.#probing)
        this.#probing = undefined
        // One that answers too late would make every question wait. It may have been asleep until now, so ask again.
        if (performance.now() - sent > this.#times.command)
          this.#probing = setTimeout(() => this.#sendProbe(), probeEvery / 10)
        else this.#take(reply)
      },
      failed: (error) => {
        answered = true
        if (connection !== this.#connection) return
        clearTimeout(this.#probing)
        this.#probing = undefined
        this.#failed(error)
      }
    })
  }

  #take(reply: Reply): void {
    this.#pause = pauses.first
    const one = (this.#return = {})
    this.#duty.probed(reply)
    this.#duty.returned(() => {
      if (this.#return !== one) return
      this.#return = undefined
      this.#usable = true
      this.#since = Date.now()
      this.#reason = null
      this.#told = false
      this.#log.info('Redis keeps the limits')
    })
  }
}
