// Whether a server has room for the connections of one more process.
import { readAddress } from './address.ts'
import { connectionsOf } from './database.ts'
import { Session } from './session.ts'

/**
 * Asks a server for its room, on a connection that is closed again. `workers`: how many the process has, 0 for none.
 * @throws Error with the sum when the connections do not fit; DatabaseFault when the server cannot be asked
 */
export async function checkCapacity(url: string, workers: number, name: string): Promise<void> {
  const address = readAddress(url)
  const session = await Session.open(address, name)
  let row: { most: number; spared: number; used: number }
  try {
    const { rows } = await session.query<typeof row>(
      `select current_setting('max_connections')::int as most,
         coalesce(current_setting('superuser_reserved_connections', true)::int, 0)
           + coalesce(current_setting('reserved_connections', true)::int, 0) as spared,
         (select count(*)::int - 1 from pg_stat_activity where backend_type = 'client backend') as used`,
      undefined,
      address.timeout
    )
    row = rows[0]!
  } finally {
    await session.close()
  }
  const { most, spared, used } = row
  const needed = connectionsOf(workers)
  if (used + needed <= most - spared) return
  throw new Error(
    `PostgreSQL (${address.shown}) has no room for this gateway: ${used} connections are in use and it needs ${needed}, ` +
      `which makes ${used + needed}, and max_connections = ${most} leaves ${most - spared} (${spared} are reserved): ` +
      `raise max_connections,${workers > 0 ? ' have fewer workers,' : ''} or put a pooler before it and name both in store.postgres (url, listen_url)`
  )
}
