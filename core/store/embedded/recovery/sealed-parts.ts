// What was charged for parts of requests that are still open, in entries that are sealed in volumes by then.
import type { Database } from '../files/sqlite.ts'
import { readRows } from '../files/sqlite.ts'
import { readVolume, VolumeError, volumeFolder, volumeOf } from '../journal/volume.ts'
import type { PartRow } from './leftovers.ts'

/**
 * Reads it, by the id of the request. No part begins before its request, so volumes that are older than all open
 * requests are not read. Work that goes on behind its answer has no parts, and may be days old. A volume that is
 * missing or was changed is passed over: `sluice ledger verify` names it.
 */
export function sealedParts(database: Database, file: string): ReadonlyMap<string, readonly PartRow[]> {
  const open = new Map<string, PartRow[]>()
  let since = Infinity
  const sql = "SELECT request_id, ts_ms FROM reservation WHERE part = '' AND lease_until IS NULL"
  for (const row of readRows(database, sql)) {
    open.set(row['request_id'] as string, [])
    since = Math.min(since, Number(row['ts_ms']))
  }
  for (const row of readRows(database, 'SELECT * FROM volume WHERE newest >= ? ORDER BY first', since)) {
    try {
      for (const { request_id, part, class: name, kind, amount, usage_json } of readVolume(
        volumeFolder(file),
        volumeOf(row)
      ))
        if (part !== '' && name === 'terminal' && kind === 'settle')
          open.get(request_id as string)?.push({ amount: amount as bigint, usage_json: usage_json as string })
    } catch (error) {
      if (!(error instanceof VolumeError)) throw error
    }
  }
  return open
}
