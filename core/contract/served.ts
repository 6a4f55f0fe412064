// An operation with what the gateway does for it, and how the one of a request is found.
import type { BodyMemory } from '../bodies/body-memory.ts'
import type { Catalogue } from '../catalogue/catalogue.ts'
import type { Services } from '../store/services.ts'
import type { Attempt } from './attempt.ts'
import type { Candidates } from './candidates.ts'
import type {
  Awaitable,
  ClientRequest,
  Exchange,
  GatewayError,
  Observer,
  Reply,
  Stage,
  UpstreamResponse,
  WholeReply
} from './contract.ts'
import type { Background, NewWork, WorkKind } from './background.ts'
import type { Work } from '../store/works.ts'
import type { Operation } from './operation.ts'

/** What the gateway's own handlers work with. */
export interface OperationContext {
  /** Of the generation that the exchange began with. */
  readonly catalogue: Catalogue
  /** What requests are held in: who makes them larger takes of it, and gives back. */
  readonly memory: Pick<BodyMemory, 'take' | 'give'>
  readonly services: Services
  readonly background: Background
}

/**
 * An exchange that goes on after its client was answered. What its upstream answers is kept as the result of the work.
 */
export interface LoneWork {
  /**
   * Whether this request is to go on so; absent: each is. A stream of it is shown to its client for as long as that is
   * there.
   */
  when?(exchange: Exchange): boolean
  /** What is known of it when it begins. @throws GatewayError what the request is refused with */
  begin(exchange: Exchange): Pick<NewWork, 'kind' | 'details' | 'id' | 'keep'>
  /** Keeps what is to be there from the beginning; resolves, with what is the work's, when that is on disk. */
  keepBeginning?(exchange: Exchange, work: Work, context: OperationContext): Promise<KeptOfWork>
  /** What its client is answered, unless it gets a stream. */
  accepted(exchange: Exchange, work: Work): WholeReply
  /** Keeps what was answered, likewise; absent: as it is. */
  keepAnswer?(exchange: Exchange, work: Work, answer: Buffer, context: OperationContext): Promise<KeptOfWork>
  /**
   * How a stream of it ends that was called off, behind what has been `told` of it, in whole events; absent: as one
   * that failed.
   */
  calledOff?(exchange: Exchange, told: readonly Buffer[]): Buffer
}

/** What work says of its result. */
type KeptOfWork = Pick<Work, 'bytes' | 'details'>

/** An operation as the engine runs it. */
export interface ServedOperation extends Operation {
  /**
   * Looks up what the request goes on with, once its caller is known, and before any plugin that wants the body. Throw
   * to refuse.
   */
  onBody?(exchange: Exchange, context: OperationContext): Awaitable<void>
  /**
   * Answers in place of an upstream, after the chain has let the request through; nothing: an upstream is to answer.
   */
  onRequest?(exchange: Exchange, context: OperationContext): Awaitable<Reply | undefined>
  /**
   * Leaves out the channels that this request cannot be served by, or puts them in order, before any plugin does. Throw
   * to refuse.
   */
  onCandidates?(exchange: Exchange, candidates: Candidates, context: OperationContext): Awaitable<void>
  /** Changes what is sent, before any plugin does. Runs for each attempt. */
  onAttempt?(exchange: Exchange, attempt: Attempt): void
  /** Changes an accepted answer where it is first in the protocol of its client: before the plugins above see it. */
  stageInProtocol?(exchange: Exchange): Stage | undefined
  /** The last to see an accepted answer, as its client does. */
  stageAtClient?(exchange: Exchange, context: OperationContext): Stage | undefined
  /** What the client is told of a failure that no other attempt follows. The attempt keeps the error as it was. */
  onFailure?(exchange: Exchange, error: GatewayError, context: OperationContext): Awaitable<GatewayError>
  /**
   * Looks on while an accepted answer passes, before any plugin sees it. What it notes is on disk before the client
   * sees it: see `Exchange.hold`.
   */
  onResponse?(exchange: Exchange, response: UpstreamResponse, context: OperationContext): Observer | undefined
  /** Brings an accepted answer into the form that clients of the operation read, before any plugin sees it. */
  stageAtUpstream?(exchange: Exchange, context: OperationContext): Stage | undefined
  /** Its answers begin work of this kind at an upstream, which goes on after them. */
  readonly begins?: WorkKind
  /** Whether this request may begin some; absent: each does. */
  mayBegin?(exchange: Exchange): boolean
  /** The client is answered at once, and the exchange goes on without it, when it is its turn. */
  readonly goesOn?: LoneWork
}

/** A request, with all that its operation can do. */
export interface ServedRequest extends ClientRequest {
  readonly operation: ServedOperation
}

/** What a path leads to. */
export interface Match {
  /** Undefined when the path has operations, but none with the method. */
  operation: ServedOperation | undefined
  /** The methods of the path. */
  allow: readonly string[]
  parameters: Readonly<Record<string, string>>
}

/** Finds what a request asks for, once per request; undefined when nothing is at its path. */
export interface OperationFinder {
  find(
    method: string,
    path: string,
    headers: Readonly<Record<string, string | string[] | undefined>>,
    query: string
  ): Match | undefined
  /** The operation that is most like a request for which there is none: its client reads errors of that protocol. */
  nearest(
    path: string,
    headers: Readonly<Record<string, string | string[] | undefined>>,
    query: string
  ): ServedOperation
}
