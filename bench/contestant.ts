// A gateway that is measured, and where it is to be found.

/** Where a load goes, and whose CPU it costs. */
export interface Target {
  port: number
  pid: number
  /** Distinct keys that its clients use in turn; all use one when undefined. */
  keys?: number | undefined
}

/** A gateway under test. */
export interface Contestant extends Target {
  name: string
  /** Runs one full garbage collection and tells the KiB of JavaScript heap left; undefined where there is no collector. */
  collect(): Promise<number | undefined>
  stop(): Promise<void>
}
