// Where the time of an exchange goes: what its plugins take, and when its body was there.

/** A hook that takes time of an exchange. `release`: what a plugin registered to be run at the end. */
export type TimedHook =
  | 'onModel'
  | 'onRequest'
  | 'onCandidates'
  | 'selectChannel'
  | 'onAttempt'
  | 'onResponse'
  | 'onTurn'
  | 'onSettled'
  | 'release'

/** One call of a hook. */
export interface HookCall {
  readonly plugin: string
  readonly hook: TimedHook
  /** A value of `performance.now()`. */
  readonly began: number
  /** Milliseconds until it was done, without what it waited for the body. */
  readonly ms: number
}

/** Calls that took less are only added up: records have tenths of milliseconds. */
const leastMs = 0.1
/** The most calls that are kept one by one: a session makes as many as its client asks for turns. */
const mostCalls = 16
const none: readonly HookCall[] = []

/**
 * The times of one exchange. One reading of the clock ends a hook and begins the next; stages are not timed, because
 * that would cost two readings a message.
 */
export class Times {
  /** The calls that took a tenth of a millisecond or longer, in the order in which they ended. */
  calls: readonly HookCall[] = none
  /** How many such calls are not among them, because there were too many. */
  omitted = 0
  /** Milliseconds in all hooks together. */
  hooksMs = 0
  /** The plugin that answered in the place of an upstream. */
  answeredBy: string | undefined
  /** When the whole body was there and checked, as `performance.now()`; undefined when none was read. */
  bodyAt: number | undefined
  #bodyAsked = 0

  /** Somebody begins to wait for the body. */
  awaitBody(): void {
    this.#bodyAsked = performance.now()
  }

  /** The body is there, and checked. */
  haveBody(): void {
    this.bodyAt = performance.now()
  }

  /** Notes a call, and returns for how long the plugin itself took. */
  note(plugin: string, hook: TimedHook, began: number, ended: number): number {
    const { bodyAt } = this
    let ms = ended - began
    if (bodyAt !== undefined && bodyAt > began && bodyAt <= ended) ms -= bodyAt - Math.max(began, this.#bodyAsked)
    this.hooksMs += ms
    if (ms >= leastMs) this.#keep({ plugin, hook, began, ms })
    return ms
  }

  #keep(call: HookCall): void {
    if (this.calls.length === mostCalls) this.omitted++
    else if (this.calls === none) this.calls = [call]
    else (this.calls as HookCall[]).push(call)
  }
}
