// A search: a statement that may take long, that the server ends by itself, and that ends when nobody waits for it.
import type { Lane } from './lane.ts'

/** How much later than the server we give up, in milliseconds, so that the server says it. */
const grace = 2000

/** How a search ends. */
export interface SearchLimits {
  /** How long it may take, in milliseconds. The server ends it then. */
  readonly deadline: number
  /** How long it may wait for a connection, in milliseconds. */
  readonly wait: number
  /** Aborted when nobody wants what it finds any more. */
  readonly left?: AbortSignal | undefined
}

/**
 * Searches. All is set for its transaction alone, as a pooler gives the connection to others after it. A server that
 * can do so looks every second whether somebody still waits.
 * @throws DatabaseFault with the code `57014` when it took too long, and `left` when nobody waits any more
 */
export async function search<Row>(
  lane: Lane,
  text: string,
  values: readonly unknown[],
  { deadline, wait, left }: SearchLimits
): Promise<Row[]> {
  const { rows } = await lane.transaction(
    async (transaction) => {
      await transaction.query(`do $$ begin
        set local statement_timeout = ${deadline};
        begin set local client_connection_check_interval = 1000; exception when others then null; end;
      end $$`)
      return transaction.query<Row>(text, values)
    },
    { deadline: deadline + grace, wait, left }
  )
  return rows
}
