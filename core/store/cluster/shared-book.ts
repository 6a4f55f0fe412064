// The parts of the store that are in PostgreSQL, over the connections of one process.
import type { Database } from './database/database.ts'
import { DocumentBook } from './documents/document-book.ts'

/** The parts of the book that all gateways share, as one of them has them. */
export interface SharedBook {
  readonly documents: DocumentBook
  /** Writes what waits. The connections stay open: they are the caller's. */
  close(): Promise<void>
}

/**
 * Opens the parts over connections whose schema is up to date.
 * @throws DatabaseFault when they cannot be read
 */
export async function openSharedBook(database: Database): Promise<SharedBook> {
  const documents = await DocumentBook.open(database)
  return {
    documents,
    async close() {
      await documents.close()
    }
  }
}
