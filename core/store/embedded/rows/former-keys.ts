// Keys as earlier versions stored them, in a table and in rows of the commit log of their own: makes documents of them.
import { checksum } from '../files/checksum.ts'
import { formatDollars } from '../../../money/money.ts'
import type { Database, Value } from '../files/sqlite.ts'

/** The columns of a key in the formats of the commit log before 5, and in the table key. */
export const keyColumns = [
  'name',
  'sha256',
  'hint',
  'tenant',
  'project',
  'member',
  'models',
  'endpoints',
  'limits',
  'budget_limit',
  'budget_per',
  'expires',
  'created',
  'revoked'
] as const

/** Returns the rows of documents for rows of keys. */
export function documentsOf(keys: readonly Value[]): Value[] {
  const documents: Value[] = []
  for (let i = 0; i < keys.length; i += keyColumns.length) documents.push(...documentOf(keys.slice(i)))
  return documents
}

/** Moves the rows of the table key to the table document. The sixth migration calls it once. */
export function moveKeys(database: Database): void {
  const statement = database.prepare(`SELECT ${keyColumns.join(', ')} FROM key ORDER BY created, name`)
  statement.setReadBigInts(true)
  const insert = database.prepare('INSERT INTO document (kind, id, json, crc) VALUES (?, ?, ?, ?)')
  for (const row of statement.all() as Record<string, Value>[]) {
    const document = documentOf(keyColumns.map((name) => row[name]!))
    insert.run(...document, checksum(document))
  }
  database.exec('DROP TABLE key')
}

/** The document of a key in the form that core/tenancy/stored.ts describes. */
function documentOf(row: readonly Value[]): [kind: string, id: string, json: string] {
  const [
    name,
    sha256,
    hint,
    tenant,
    project,
    member,
    models,
    endpoints,
    limits,
    budget,
    per,
    expires,
    created,
    revoked
  ] = row as [string, Uint8Array, ...Value[]]
  const time = (value: Value | undefined): number | undefined => (value === null ? undefined : Number(value))
  const ends = time(expires)
  const document = {
    name,
    tenant,
    project: project ?? undefined,
    member: member ?? undefined,
    settings: {
      models: JSON.parse(models as string) as string[],
      endpoints: JSON.parse(endpoints as string) as string[],
      limits: JSON.parse(limits as string) as object,
      budget: budget === null ? undefined : { usd: formatDollars(BigInt(budget as bigint)), per },
      expires: ends === undefined ? undefined : new Date(ends).toISOString()
    },
    secrets: [{ sha256: Buffer.from(sha256).toString('hex'), hint, created: Number(created) }],
    created: Number(created),
    revoked: time(revoked)
  }
  return ['key', name, JSON.stringify(document)]
}
