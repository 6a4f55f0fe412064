// What the worker of a gateway is started with.
import type { SentConfig } from '../program/configuration.ts'
import type { Address } from '../clients/listener.ts'
import type { Estate } from '../handover/messages.ts'
import type { Pots } from '../allowance.ts'
import type { WorkerNode } from '../store/cluster/store.ts'
import type { Place } from '../store/shared/worker-store.ts'

/** It is sent to the thread with the port of the place to be transferred. */
export interface GatewayOrder {
  /** The configuration in use. */
  readonly config: SentConfig
  /** Where it listens. A port 0 is any; all but the first worker are told the one that this has. */
  readonly host: string
  readonly port: number
  /**
   * The descriptors of the sockets that it listens on copies of; none: it makes one, which the supervisor keeps a copy
   * of.
   */
  readonly sockets: readonly number[]
  /** How many workers there are, among which the queue of telemetry is divided. */
  readonly workers: number
  /** What the process before has left of what plugins share, for those that take its place. */
  readonly shared: Estate['shared']
  /** What all threads may use together; the place of a worker in them is its number. */
  readonly pots: Pots
  /** What it has of the store. */
  readonly place: SeatOrder | NodeOrder
}

/** What a worker says when it serves. */
export interface Serving {
  readonly address: Address
  /** The descriptor of the socket that it listens on, or of the first one. */
  readonly descriptor: number
}

/** The seat of a worker in a store that is in a file. */
export interface SeatOrder extends Place {
  readonly kind: 'seat'
}

/** The node of a worker in a store that gateways share. */
export interface NodeOrder {
  readonly kind: 'node'
  readonly node: WorkerNode
  /** Whether somebody wants to hear of the requests that end. */
  readonly isHeard: boolean
}
