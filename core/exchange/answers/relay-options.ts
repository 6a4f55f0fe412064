// What the engine decides for every relay.
import type { Client } from '../../clients/client.ts'
import type { Awaitable, UpstreamResponse } from '../../contract/contract.ts'
import type { Operation } from '../../contract/operation.ts'
import type { Watchdog } from '../../watchdog/watchdog.ts'
import type { AnswerShape } from './answer-shape.ts'
import type { Patience } from './patience.ts'
import type { PluginStage } from './stages.ts'

/** How an answer is relayed, to whom, and by whose time. */
export interface RelayOptions extends AnswerShape {
  /** The client asked for a stream of events. */
  streaming: boolean
  /** Of an accepted answer, in the place of the upstream's. */
  status?: number | undefined
  client: Client
  /** See {@link Operation.framing}. */
  framing: Operation['framing']
  watchdog: Watchdog
  /** Milliseconds without the client reading. */
  clientStall: number
  patience: Patience
  /** Runs the `onResponse` hooks; stages in the order in which messages pass them. */
  accept(response: UpstreamResponse): Awaitable<PluginStage[]>
}
