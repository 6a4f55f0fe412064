// Reads the rows of a query in pieces, so that a table of any size takes the memory of one piece.
import type { Row } from '../../../embedded/files/sqlite.ts'
import type { Transaction } from '../../database/lane.ts'

/** How many rows are read at once. Progress is told as often. */
export const stride = 5000

/** The rows of a query. One is read at a time in this way; between its pieces other statements may be sent. */
export async function* rowsOf(transaction: Transaction, query: string): AsyncGenerator<Row> {
  await transaction.query(`declare rows no scroll cursor for ${query}`)
  try {
    for (;;) {
      const { rows } = await transaction.query<Row>(`fetch ${stride} from rows`)
      yield* rows
      if (rows.length < stride) break
    }
  } finally {
    // The end of a transaction that has failed closes it as well.
    await transaction.query('close rows').catch(() => {})
  }
}
