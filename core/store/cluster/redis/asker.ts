// Who asks Redis, over which connection.
import type { Place } from './address.ts'
import type { Reply } from './replies.ts'

/** Who asks something. One of both is called, once. */
export interface Asker {
  done(reply: Reply): void
  failed(error: unknown): void
}

/** A connection, or those to a cluster. Nothing that was sent is ever sent again. */
export interface Connection {
  /** Sends a command. `key`: one that it is about, which finds the server in a cluster. */
  send(key: string, command: readonly string[], asker: Asker): void
  /** Ends it at once. What was not answered fails. */
  destroy(): void
}

/** How to connect. */
export interface Connecting {
  readonly place: Place
  /** Milliseconds until a server must have taken the connection. */
  readonly timeout: number
  /** Called when the connection is lost for good, once or more; never by {@link Connection.destroy}. */
  readonly lost: (error: unknown) => void
  /** Ends connections, also those that are being made: no further one is begun. */
  readonly signal: AbortSignal
}
