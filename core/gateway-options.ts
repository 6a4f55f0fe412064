// What a gateway is started with.
import type { Plugin } from './contract/contract.ts'
import type { ServedOperation } from './contract/served.ts'
import type { Sockets } from './clients/inherited.ts'
import type { Predecessor } from './handover/predecessor.ts'
import type { Logger } from './telling/log.ts'

/** The options of a gateway. */
export interface GatewayOptions {
  /** Path of gateway.yaml. */
  config: string
  /** The variables for `${VAR}`; by default those of the process. */
  env?: NodeJS.ProcessEnv
  /** The plugins that `chain:` may name without declaring them; by default the shipped ones. */
  plugins?: ReadonlyMap<string, Plugin>
  /** The operations of the data listener; by default the shipped ones. */
  operations?: readonly ServedOperation[]
  /** By default, JSON lines on standard error. */
  log?: Logger
  /**
   * Where the files of the console are as `.tools/console.ts` built them; by default those of the package or the
   * sources.
   */
  console?: string | undefined
  /** Sockets to listen on instead of the addresses in the file. */
  sockets?: Sockets
  /**
   * How many worker threads serve clients; with more than one, none of the main thread's does. They have the shipped
   * operations and plugins, and those that the file declares. Default: what the file says.
   */
  workers?: number
  /** The process whose place this one takes. */
  predecessor?: Predecessor | undefined
  /** The program and the arguments of the process that may take the place of this one; absent: none can. */
  command?: readonly string[]
}
