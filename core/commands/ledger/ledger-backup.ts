// The command `sluice ledger backup`: makes a complete copy of a store, while its gateway may be running.
import { backUp } from '../../store/embedded/care/backup.ts'
import { defineCommand, exits, jsonOption } from '../command/command.ts'
import { Progress } from '../output/progress.ts'
import { print, restored, storeFile, storeOptions } from '../command/store-option.ts'

export const backupLedger = defineCommand({
  name: 'ledger backup',
  summary: 'copies the store, whole and of one moment, while its gateway runs or not',
  operands: ['FILE'],
  options: { verify: { text: 'checks the copy before it gets its name' }, ...storeOptions, ...jsonOption },
  notes: `
The copy has all that was acknowledged when the command began: the database, what only the commit log had, the sealed journal in
FILE.journal, and in FILE.results what came of tasks that have ended, as pictures. \`sluice ledger verify --db FILE\` checks it.

\`sluice ledger restore FILE\` brings it back. What was open when the copy was made is ended by estimate then.`,
  async run({ verify, json, ...given }, [target]) {
    const file = restored(
      await storeFile(given, 'copies a store', 'copy it with pg_dump or pg_basebackup, while its gateways run')
    )
    const made = await Progress.of('looking at the store', (tell) => backUp(file, target!, { tell, verified: verify }))
    const { entries, batches, volumes, results } = made
    if (json) print(JSON.stringify({ file, backup: target, ...made }))
    else
      print(
        `${target}: ${entries.toLocaleString('en-US')} entries of the journal, with ${batches === 1 ? '1 batch' : `${batches} batches`} of the commit log and ${volumes === 1 ? '1 sealed volume' : `${volumes} sealed volumes`}, and ${results === 1 ? '1 result of a task' : `${results} results of tasks`}`
      )
    return exits.ok
  }
})
