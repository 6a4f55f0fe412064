// A gateway that is measured, and where it is to be found.

/** What clients of a gateway speak; the upstream answers chat. */
export type Spoken = 'chat' | 'messages'

/** Where a load goes, and whose CPU it costs. */
export interface Target {
  port: number
  pid: number
  /** Distinct keys that its clients use in turn; all use one when undefined. */
  keys?: number | undefined
  /** The protocol its clients speak; default chat. */
  speaks?: Spoken | undefined
}

/** A gateway under test. */
export interface Contestant extends Target {
  name: string
  /**
   * Runs one full garbage collection and tells the KiB of JavaScript heap left; undefined where there is no collector.
   */
  collect(): Promise<number | undefined>
  stop(): Promise<void>
}
