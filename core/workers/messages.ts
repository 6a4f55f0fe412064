// What the thread of a worker is given, and what it says to the supervisor beside the calls.
import type { MessagePort } from 'node:worker_threads'
import type { LogFields, LogLevel } from '../telling/log.ts'

/** What the thread of a worker is sent when it has loaded. */
export interface WorkerData<Order = unknown> {
  /** Its place among the workers, from 1 on. */
  readonly number: number
  /** The port of the line to the supervisor. */
  readonly port: MessagePort
  readonly order: Order
}

/** What a worker says: that it serves, why it cannot, and each line of its log. */
export type Said =
  | { readonly kind: 'serves'; readonly with: unknown }
  | { readonly kind: 'fails'; readonly reason: string }
  | { readonly kind: 'log'; readonly level: LogLevel; readonly message: string; readonly fields: LogFields }
