// A search: a statement that may take long, that the server ends by itself, and that ends when nobody waits for it.
import type { Lane } from './lane.ts'

/** How much later than the server we give up, in milliseconds, so that the server says it. */
const grace = 2000

/** How a search ends. */
export interface SearchLimits {
  /** How long it may take, in milliseconds. The server ends it then. */
  readonly deadline: number
  /** Whether the server uses one process for it, however large it is. */
  readonly alone?: boolean
  /** Aborted when nobody wants what it finds any more. */
  readonly left?: AbortSignal | undefined
}

/**
 * Searches. All is set for its transaction alone, as a pooler gives the connection to others after it. A server that
 * can do so looks every second whether somebody still waits. Nothing is compiled (`jit`): it takes longer than a page.
 * @throws DatabaseFault with the code `57014` when it took too long, and `left` when nobody waits any more
 */
export async function search<Row>(
  lane: Lane,
  text: string,
  values: readonly unknown[],
  { deadline, alone, left }: SearchLimits
): Promise<Row[]> {
  const { rows } = await lane.transaction(
    async (transaction) => {
      await transaction.query(`do $$ begin
        set local statement_timeout = ${deadline};
        set local lock_timeout = 0;
        set local jit = off;
        ${alone ? 'set local max_parallel_workers_per_gather = 0;' : ''}
        begin set local client_connection_check_interval = 1000; exception when others then null; end;
      end $$`)
      return transaction.query<Row>(text, values)
    },
    { deadline: deadline + grace, left }
  )
  return rows
}
