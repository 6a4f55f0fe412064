// A gateway under test and its address.

/** The protocol that clients of a gateway speak. The upstream always answers chat. */
export type Spoken = 'chat' | 'messages'

/** The target of a load, and the process whose CPU time is measured. */
export interface Target {
  port: number
  pid: number
  /** How many different keys the clients use in turn; undefined when all use one key. */
  keys?: number | undefined
  /** The processes of the servers that it uses, whose CPU time is measured beside its own; none by default. */
  servers?: readonly number[] | undefined
  /** The protocol its clients speak; default chat. */
  speaks?: Spoken | undefined
}

/** A gateway under test. */
export interface Contestant extends Target {
  name: string
  /**
   * Runs one full garbage collection and gives the KiB of JavaScript heap in use; undefined without a garbage
   * collector.
   */
  collect(): Promise<number | undefined>
  stop(): Promise<void>
}
