// The commands `sluice config history` and `sluice rollback`: which configurations were in use, and one of them again.
import type { Problem } from '../catalogue/settings.ts'
import type { Replaced } from '../program/replacement.ts'
import { accessOptions, allOf, gatewayNote, withGateway } from './asking/admin-access.ts'
import { defineCommand, exits, jsonOption } from './command/command.ts'
import { renderTable } from './output/table.ts'

/** A configuration as the admin API lists it. */
interface Past {
  hash: string
  time: string
  reason: string
  by: string | null
  changes: string[]
}

/** The answer to a rollback, as far as it is used here. */
interface RolledBack {
  ok: boolean
  file: string
  files: Replaced[]
  to: string
  changes: string[]
  problems: Problem[]
}

const digits = 12

export const showHistory = defineCommand({
  name: 'config history',
  summary: 'lists the configurations that were in use, newest first',
  options: { ...accessOptions, ...jsonOption },
  notes: `The last 50 are kept, beside the store of the gateway.${gatewayNote}`,
  run: async (options) =>
    withGateway(options, async (admin) => {
      const all = await allOf<Past>(admin, '/admin/v1/config/history')
      const rows = all.map(({ hash, time, reason, by, changes }) => [
        hash.slice(0, digits),
        time,
        by === null ? reason : `${reason} (${by})`,
        changes.length === 0 ? '-' : `${changes[0]}${changes.length > 1 ? `, and ${changes.length - 1} more` : ''}`
      ])
      const table = renderTable([['HASH', 'SINCE', 'BY', 'CHANGES'], ...rows])
      process.stdout.write(`${options.json ? JSON.stringify({ data: all }) : table}\n`)
      return exits.ok
    })
})

export const rollbackConfig = defineCommand({
  name: 'rollback',
  summary: 'puts an earlier configuration back in use',
  operands: ['[HASH]'],
  options: {
    force: { text: 'also when the file on disk is not the one in use' },
    ...accessOptions,
    ...jsonOption
  },
  notes: `
Without HASH the one before the one in use; \`sluice config history\` lists them. The gateway writes each
file as it was then, keeps the present one aside, reloads, and says what changed. Files that came into
an included folder since are moved aside; others that are not included any more stay where they are.
What cannot be used any more is not put back: exits with 2.${gatewayNote}`,
  run: async (options, [hash]) =>
    withGateway(options, async (admin) => {
      const asked = { ...(hash !== undefined && { hash }), force: options.force }
      const { file, files, to, changes } = await admin.call<RolledBack>('POST', '/admin/v1/config/rollback', asked)
      if (options.json) process.stdout.write(`${JSON.stringify({ file, files, to, changes })}\n`)
      else process.stdout.write(`${changes.length === 0 ? 'Nothing changes.' : changes.join('\n')}\n`)
      process.stderr.write(`${file} is that of ${to.slice(0, digits)} again.\n`)
      for (const one of files) process.stderr.write(`${wordsOf(one)}\n`)
      return exits.ok
    })
})

function wordsOf({ file, done, aside }: Replaced): string {
  return aside === null ? `${done}: ${file}` : `${done}: ${file}; what was there is ${aside}`
}
