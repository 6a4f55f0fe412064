// The command `sluice import new-api`: makes a gateway.yaml of the database of new-api.
import { closeSync, openSync, readSync } from 'node:fs'
import { basename } from 'node:path'
import { defineCommand, jsonOption } from '../command/command.ts'
import { Progress } from '../output/progress.ts'
import { Draft } from './draft.ts'
import { Fates } from './fates.ts'
import { importNewApi, tablesOfDatabase, tablesOfDump } from './new-api-database.ts'
import { textIn, writeDraft } from './write.ts'

export const importNewApiCommand = defineCommand({
  name: 'import new-api',
  summary: 'makes a gateway.yaml of a database of new-api',
  operands: ['FILE'],
  options: {
    tenant: { value: 'NAME', text: 'the tenant that all of it belongs to (default new-api)' },
    free: { text: 'models whose price nobody knows cost nothing, instead of being left out' },
    out: { value: 'FILE', text: 'write to a new file instead of standard output' },
    ...jsonOption
  },
  notes: `
FILE is its SQLite database, or a dump of MySQL (mysqldump) or PostgreSQL (pg_dump) with the tables channels, tokens,
users and options. Users become projects with what is left of their quota, tokens become keys that clients go on with,
and ratios become prices. The file has the credentials of the channels in clear: put variables in their place.
What has no counterpart is on standard error; with --json all is in one object.`,
  async run({ tenant = 'new-api', free, out, json }, [file]) {
    const fates = new Fates()
    const draft = new Draft(fates, { free, tenant })
    try {
      await Progress.of('reading the database', () => {
        const rows = isDatabase(file!) ? tablesOfDatabase(file!) : tablesOfDump(textIn(file!))
        importNewApi(rows, draft, fates)
      })
    } catch (error) {
      const { message } = error as Error
      throw new Error(message.startsWith(file!) ? message : `${file} is not in this format: ${message}`)
    }
    return writeDraft(draft, fates, { source: basename(file!), out, json })
  }
})

/** Whether a file begins as databases of SQLite do. */
function isDatabase(file: string): boolean {
  let descriptor: number
  try {
    descriptor = openSync(file, 'r')
  } catch (error) {
    throw new Error(`${file} cannot be read: ${(error as Error).message}`)
  }
  try {
    const start = Buffer.alloc(16)
    readSync(descriptor, start)
    return start.toString('latin1') === 'SQLite format 3\0'
  } catch {
    return false
  } finally {
    closeSync(descriptor)
  }
}
