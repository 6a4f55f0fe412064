// Sets the clock of a database: what statements of its new connections ask for the time, by whatever function.
import { sharedPostgres } from './postgres.ts'

const functions = ['clock_timestamp', 'statement_timestamp', 'transaction_timestamp', 'now']

/**
 * Makes the clock of a database of the shared server one that can be set. To be called before anybody connects.
 * Defaults of columns go by the true clock. Returns a function that sets it: by how many milliseconds it is ahead.
 */
export async function settableClock(url: string): Promise<(ahead: number) => Promise<void>> {
  const server = await sharedPostgres()
  const name = new URL(url).pathname.slice(1)
  const path = 'shifted, pg_catalog, public'
  const shifted = functions.map(
    (one) => `create function shifted.${one}() returns timestamptz language sql volatile as
      'select pg_catalog.${one}() + ahead from shifted.clock'`
  )
  await server.sql(
    `create schema shifted; create table shifted.clock (ahead interval not null);
     insert into shifted.clock values ('0'); ${shifted.join(';')};
     alter database ${name} set search_path = ${path}; set search_path = ${path}`,
    url
  )
  return async (ahead) => {
    await server.sql(`update shifted.clock set ahead = ${ahead} * interval '1 ms'`, url)
  }
}
