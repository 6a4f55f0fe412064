// Connects for reading a book beside its gateways. Nothing is changed: who only looks brings no schema up to date.
import { readAddress } from './address.ts'
import { Lane } from './lane.ts'
import { checkProgram, readMigrations } from './migrations.ts'
import { loadPackage } from './package.ts'

/**
 * Opens a connection to a book, which the caller closes. `name`: what `pg_stat_activity` shows.
 * @throws Error when there is no book, its schema is another one, or a store is still being moved there
 */
export async function openForReading(url: string, name: string): Promise<Lane> {
  await loadPackage()
  const address = readAddress(url)
  const lane = new Lane(address, name, 1)
  try {
    await checkThere(lane, address.shown)
    const migrations = readMigrations()
    await checkProgram(lane, migrations)
    const { rows } = await lane.query<{ number: number }>('select number from sluice.migration')
    const ran = new Set(rows.map(({ number }) => number))
    const missing = migrations.find(({ number }) => !ran.has(number))
    if (missing)
      throw new Error(
        `${address.shown} lacks change ${missing.number} (${missing.name}) of the schema, which this program knows: start a gateway of this version once, which brings it up to date`
      )
    await refuseUnfinished(lane)
    return lane
  } catch (error) {
    await lane.close()
    throw error
  }
}

async function checkThere(lane: Lane, shown: string): Promise<void> {
  const { rows } = await lane.query<{ there: boolean }>(`select to_regclass('sluice.migration') is not null as there`)
  if (!rows[0]!.there) throw new Error(`${shown} has no store: no gateway has started there yet`)
}

/** @throws Error while a store is being moved into the database */
export async function refuseUnfinished(lane: Lane): Promise<void> {
  const { rows } = await lane.query<{ there: boolean }>(`select to_regclass('sluice.move') is not null as there`)
  if (!rows[0]!.there) return
  const { rows: moves } = await lane.query<{ began: string }>('select began::text from sluice.move where done is null')
  if (moves[0])
    throw new Error(
      `a store is being moved into the database since ${moves[0].began}, and not all of it is there: "sluice ledger move" goes on where it stopped`
    )
}
