// The command `sluice ledger restore`: puts a backup in the place of the store, and the store aside.
import { basename, join, resolve } from 'node:path'
import { formatDollars } from '../../money/money.ts'
import type { Difference } from '../../store/embedded/care/difference.ts'
import { restore, tryRestore } from '../../store/embedded/care/restore.ts'
import type { Restored } from '../../store/embedded/care/restore.ts'
import { defineCommand, exits, jsonOption } from '../command/command.ts'
import { Progress } from '../output/progress.ts'
import { print, storeFile, storeOptions } from '../command/store-option.ts'

export const restoreLedger = defineCommand({
  name: 'ledger restore',
  summary: 'puts a backup in the place of the store, and puts the store aside',
  operands: ['FILE'],
  options: {
    'dry-run': { text: 'only says what would be done and what would be lost; a gateway may be running' },
    foreign: { text: 'takes FILE also when it is of another store' },
    ...storeOptions,
    ...jsonOption
  },
  notes: `
For while no gateway runs. FILE is a backup, or the database of any other store of this gateway that nobody uses. It is checked and
copied, and stays as it is. All that is in its place now (database, commit log, sealed journal, results) goes to a folder
STORE.replaced-TIME beside it. What is newer there is told; the same command brings it back, with STORE.replaced-TIME/STORE for FILE.
Killed at any moment it leaves the old store or the new one; where it was under way with the last step, the next start completes
it and says so. What was open when the backup was made is ended by estimate at the next start.`,
  async run({ 'dry-run': dry, foreign, json, ...given }, [name]) {
    const file = await storeFile(
      given,
      'restores a store',
      'stop its gateways, and restore the database with what made the copy, pg_restore or a base backup'
    )
    const source = resolve(name!)
    const done = await Progress.of('looking at the backup', (tell) =>
      dry ? tryRestore(file, source, { foreign, tell }) : restore(file, source, { foreign, tell })
    )
    if (json) print(JSON.stringify(shown(done, dry)))
    else for (const line of told(done, dry)) print(line)
    return exits.ok
  }
})

function* told({ file, source, entries, breaches, lost, gained, aside }: Restored, dry: boolean): Generator<string> {
  yield `${file}: ${dry ? 'would be' : 'is now'} ${source}, with ${count(entries, 'entry', 'entries')} of the journal`
  if (breaches > 0)
    yield `${count(breaches, 'row')} of it ${breaches === 1 ? 'breaks' : 'break'} an invariant: \`sluice ledger verify --db ${source}\` names them`
  if (lost === undefined) yield 'No store was there.'
  else {
    yield* list(dry ? 'lost by it would be' : 'lost by it', lost)
    yield* list(dry ? 'brought back would be' : 'brought back by it', gained!)
  }
  if (dry) yield 'Nothing was changed: without --dry-run it is done.'
  else if (aside !== null) {
    yield `What was there is in ${aside}. To bring it back:`
    yield `  sluice ledger restore --db ${quoted(file)} ${quoted(join(aside, basename(file)))}`
  }
}

function* list(title: string, found: Difference | string): Generator<string> {
  if (typeof found === 'string') return yield `${title}: ${found}`
  const { requests, entries, charges, amount, tasks, documents, audits, newest } = found
  const changed = Object.entries(documents).map(([kind, number]) => `${number} of ${kind}`)
  const lines = [
    ...(requests > 0 ? [count(requests, 'request')] : []),
    ...(charges > 0 ? [`${count(charges, 'charge')} of $${formatDollars(amount)}`] : []),
    ...(entries > charges
      ? [count(entries - charges, 'other entry of the journal', 'other entries of the journal')]
      : []),
    ...(tasks > 0 ? [count(tasks, 'task')] : []),
    ...(changed.length > 0 ? [`changed documents: ${changed.join(', ')}`] : []),
    ...(audits > 0 ? [count(audits, 'entry of the audit log', 'entries of the audit log')] : [])
  ]
  yield `${title}: ${lines.length === 0 ? 'nothing' : lines.join('; ')}${newest === null ? '' : `; the newest is of ${new Date(newest).toISOString()}`}`
}

function count(number: number, one: string, more = `${one}s`): string {
  return `${number.toLocaleString('en-US')} ${number === 1 ? one : more}`
}

function quoted(path: string): string {
  return /^[\w./:@%+=-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`
}

function shown({ lost, gained, ...rest }: Restored, dry: boolean): object {
  const difference = (found: Difference | string | undefined): unknown => {
    if (found === undefined || typeof found === 'string') return found ?? null
    const { amount, newest, ...counts } = found
    return {
      ...counts,
      amount_usd: formatDollars(amount),
      amount_nano: String(amount),
      newest: newest === null ? null : new Date(newest).toISOString()
    }
  }
  return { ...rest, dry_run: dry, lost: difference(lost), gained: difference(gained) }
}
