// An operation with the handlers that the gateway runs for it, and how the operation of a request is found.
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

/** What the handlers of operations work with. */
export interface OperationContext {
  /** The catalogue of the generation that the exchange began with. */
  readonly catalogue: Catalogue
  /** The memory for request bodies: a handler that makes a body larger takes from it and gives back. */
  readonly memory: Pick<BodyMemory, 'take' | 'give'>
  readonly services: Services
  readonly background: Background
}

/** An exchange that goes on after its client was answered. The upstream's answer is kept as the result of the work. */
export interface LoneWork {
  /**
   * Whether this request goes on in this way; absent: every one does. Its stream is shown to the client while the
   * client is connected.
   */
  when?(exchange: Exchange): boolean
  /**
   * The facts about the work when it begins.
   * @throws GatewayError to refuse the request
   */
  begin(exchange: Exchange): Pick<NewWork, 'kind' | 'details' | 'id' | 'keep'>
  /** Stores what must be there from the beginning. Resolves when it is on disk, with the members to set on the work. */
  keepBeginning?(exchange: Exchange, work: Work, context: OperationContext): Promise<KeptOfWork>
  /** The answer to the client, unless the client gets a stream. */
  accepted(exchange: Exchange, work: Work): WholeReply
  /** Stores the answer, and resolves as {@link keepBeginning} does. Absent: the answer is stored as it is. */
  keepAnswer?(exchange: Exchange, work: Work, answer: Buffer, context: OperationContext): Promise<KeptOfWork>
  /**
   * The end of the stream of cancelled work, in whole events. `told`: the events so far. Absent: the stream ends as
   * that of a failed request.
   */
  calledOff?(exchange: Exchange, told: readonly Buffer[]): Buffer
}

/** The members of a work that describe its result. */
type KeptOfWork = Pick<Work, 'bytes' | 'details'>

/** An operation as the engine runs it. */
export interface ServedOperation extends Operation {
  /**
   * Looks up what the request refers to, such as an earlier response. Runs when the caller is known, before any plugin
   * that wants the body. Throw to refuse the request.
   */
  onBody?(exchange: Exchange, context: OperationContext): Awaitable<void>
  /** Answers in place of an upstream, after the chain has let the request through. Undefined: an upstream answers. */
  onRequest?(exchange: Exchange, context: OperationContext): Awaitable<Reply | undefined>
  /**
   * Removes the channels that cannot serve this request, or sorts them, before any plugin does. Throw to refuse the
   * request.
   */
  onCandidates?(exchange: Exchange, candidates: Candidates, context: OperationContext): Awaitable<void>
  /** Changes what is sent upstream, before any plugin does. Runs once per attempt. */
  onAttempt?(exchange: Exchange, attempt: Attempt): void
  /** A stage directly above the translation, where an accepted answer is first in the client's protocol. */
  stageInProtocol?(exchange: Exchange): Stage | undefined
  /** The last stage of an accepted answer, which sees it as the client does. */
  stageAtClient?(exchange: Exchange, context: OperationContext): Stage | undefined
  /** The error for the client when an exchange fails and no attempt follows. The attempt keeps the original error. */
  onFailure?(exchange: Exchange, error: GatewayError, context: OperationContext): Awaitable<GatewayError>
  /**
   * Observes an accepted answer before any plugin does. What it notes is on disk before the client sees the answer: see
   * {@link Exchange.showAfter}.
   */
  onResponse?(exchange: Exchange, response: UpstreamResponse, context: OperationContext): Observer | undefined
  /**
   * A stage before those of all plugins. It brings an accepted answer into the form that clients of the operation read.
   */
  stageAtUpstream?(exchange: Exchange, context: OperationContext): Stage | undefined
  /** The kind of work that the answers of this operation begin at an upstream. */
  readonly begins?: WorkKind
  /** Whether this request may begin work; absent: every request may. */
  mayBegin?(exchange: Exchange): boolean
  /** Set when the client may be answered at once. The exchange then waits for its turn, and goes on without it. */
  readonly goesOn?: LoneWork
}

/** A request, with all that its operation can do. */
export interface ServedRequest extends ClientRequest {
  readonly operation: ServedOperation
}

/** The result of looking up a path. */
export interface Match {
  /** Undefined when the path exists, but not with this method. */
  operation: ServedOperation | undefined
  /** The methods that the path exists with. */
  allow: readonly string[]
  parameters: Readonly<Record<string, string>>
}

/** Finds the operation of a request, once per request. Undefined when nothing is at the path. */
export interface OperationFinder {
  find(
    method: string,
    path: string,
    headers: Readonly<Record<string, string | string[] | undefined>>,
    query: string
  ): Match | undefined
  /** For a request without an operation: the most similar one, whose protocol decides the form of the error. */
  nearest(
    path: string,
    headers: Readonly<Record<string, string | string[] | undefined>>,
    query: string
  ): ServedOperation
}
