// Databases that are made of a journal in segments: what tells them, and the table that they have in another form.
import { shortId } from '../rows/uuid.ts'
import type { Database } from '../files/sqlite.ts'

/** The `application_id` of such a database: alone it is no store. */
export const ofJournal = 0x536a726e

/**
 * Whether a database is made of a journal in segments: entries, open holds and what decides about money are there, and
 * the tables `journal` and `reservation` stay empty.
 */
export function isReadSide(database: Database): boolean {
  return database.prepare('PRAGMA application_id').get()!['application_id'] === ofJournal
}

/**
 * Makes it one. A record is where its row says, and the row has only what it is found by: of the columns that the
 * record has too none but its id, in as few bytes as that takes, and its time.
 */
export function makeReadSide(database: Database): void {
  const { type } = database.prepare("SELECT type FROM pragma_table_info('request') WHERE name = 'request_id'").get()!
  if (isReadSide(database) && type === 'ANY') return
  database.function('short_id', { deterministic: true }, (id) => (typeof id === 'string' ? shortId(id) : id))
  database.exec(`
    BEGIN IMMEDIATE;
    PRAGMA application_id = ${ofJournal};
    ALTER TABLE request RENAME TO whole_request;
    CREATE TABLE request (
      seq INTEGER PRIMARY KEY,
      request_id ANY NOT NULL UNIQUE,  -- 16 bytes where it is a UUID
      tenant TEXT,                     -- null where the row has a place, as are the next two
      key TEXT,
      model TEXT,
      time INTEGER NOT NULL,
      written INTEGER NOT NULL,
      json TEXT NOT NULL,              -- a record, or its place: see record-place.ts
      crc INTEGER NOT NULL             -- 0 where the row has a place
    ) STRICT;
    INSERT INTO request SELECT seq, short_id(request_id), tenant, key, model, time, written, json, crc FROM whole_request;
    DROP TABLE whole_request;
    COMMIT;
  `)
}
