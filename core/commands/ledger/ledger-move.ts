// The command `sluice ledger move`: carries a store from a SQLite file into PostgreSQL, or back.
import { moveStore } from '../../store/move/move.ts'
import type { Moved } from '../../store/move/move.ts'
import { parts } from '../../store/move/parts.ts'
import { defineCommand, exits, jsonOption, UsageError } from '../command/command.ts'
import { print, readPlace } from '../command/store-option.ts'
import { Progress } from '../output/progress.ts'

export const moveLedger = defineCommand({
  name: 'ledger move',
  summary: 'carries the whole store from a SQLite file into PostgreSQL, or back',
  options: {
    from: { value: 'PLACE', text: 'the store that there is: a file, or postgres://user:password@host:5432/database' },
    to: { value: 'PLACE', text: 'where it shall be: the other one of the two, with nothing in it' },
    'dry-run': { text: 'only says what would be carried; nothing is made' },
    ...jsonOption
  },
  notes: `
A PLACE may be '\${NAME}', in quotes: the variable NAME of the environment, so that no password is on the command line. No gateway may run
on either: one that does is named, and none can start on them before the end. The store that there is stays as it is. All is carried: money
with its journal, open holds, keys and all else that operators made, the audit log, request log, work with its results, kept answers.
Killed at any moment, the same command goes on where it was. At the end rows are counted, the whole book is verified as "sluice ledger
verify" does, and only then a gateway may start on it: name the new place in the configuration, with the same keys and secrets.
The hash chain of a file goes on to be checked in PostgreSQL as it was. On the way back the chains of all gateways become one, behind
what came from a file; where each ended stays on record, and "sluice ledger verify" computes it again.
Exits with 4 while a gateway runs.`,
  async run({ from, to, 'dry-run': dryRun, json }) {
    const places = { from: endOf('from', from), to: endOf('to', to) }
    const began = performance.now()
    const moved = await Progress.of('looking at both places', (tell) => moveStore({ ...places, dryRun, tell }))
    const seconds = (performance.now() - began) / 1000
    if (json)
      print(
        JSON.stringify({
          from: moved.from,
          to: moved.to,
          dry_run: dryRun,
          rows: moved.counts,
          seconds: Number(seconds.toFixed(3))
        })
      )
    else for (const line of told(moved, dryRun, seconds)) print(line)
    return exits.ok
  }
})

/** @throws UsageError when it is missing, or names a variable that is not set */
function endOf(option: string, text: string | undefined): string {
  if (text === undefined)
    throw new UsageError(`--${option} is missing: say where the store ${option === 'from' ? 'is' : 'shall be'}`)
  const place = readPlace(`--${option}`, text)
  return place.sqlite ?? place.postgres.url
}

function* told({ from, to, counts }: Moved, dryRun: boolean, seconds: number): Generator<string> {
  const rows = parts.filter((part) => counts[part] > 0).map((part) => `${part} ${counts[part].toLocaleString('en-US')}`)
  const list = rows.length === 0 ? 'no rows' : `${rows.join(', ')} rows`
  if (dryRun) {
    yield `${from}: ${list} would be moved to ${to}`
    yield 'Nothing was changed: without --dry-run it is done.'
    return
  }
  yield `${from}: ${list} are in ${to} now, carried and verified in ${seconds.toFixed(1)} s`
  yield `${from} is as it was. Name ${to} in the configuration, and start the gateway on it; from then on they differ.`
}
