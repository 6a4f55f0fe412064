// The command `sluice ledger backup`: makes a complete copy of a store, while its gateway may be running.
import { backUp } from '../store/backup.ts'
import { defineCommand, exits, jsonOption } from './command.ts'
import { Progress } from './progress.ts'
import { print, storeOf, storeOptions } from './store-option.ts'

export const backupLedger = defineCommand({
  name: 'ledger backup',
  summary: 'copies the store, whole and of one moment, while its gateway runs or not',
  operands: ['FILE'],
  options: { ...storeOptions, ...jsonOption },
  notes: `
The copy has all that was acknowledged when the command began: the database, what only the commit log had, the sealed journal in
FILE.journal, and in FILE.results what came of tasks that have ended, as pictures. \`sluice ledger verify --db FILE\` checks it.

To bring it back, stop the gateway, move the store's files away (the database with its endings -wal, .log0 and .log1, .journal
and .results), put the copy in their place, and start. What was charged after the copy was made is only in what was moved
away. A start beside a commit log that goes on behind the copy refuses; \`sluice ledger repair\` says what was charged in it
and puts it aside. What was open when the copy was made is ended by estimate then.`,
  async run({ json, ...given }, [target]) {
    const file = await storeOf(given)
    const made = await Progress.of('looking at the store', (progress) =>
      backUp(file, target!, (words) => progress.step(words))
    )
    const { entries, batches, volumes, results } = made
    if (json) print(JSON.stringify({ file, backup: target, ...made }))
    else
      print(
        `${target}: ${entries.toLocaleString('en-US')} entries of the journal, with ${batches === 1 ? '1 batch' : `${batches} batches`} of the commit log and ${volumes === 1 ? '1 sealed volume' : `${volumes} sealed volumes`}, and ${results === 1 ? '1 result of a task' : `${results} results of tasks`}`
      )
    return exits.ok
  }
})
