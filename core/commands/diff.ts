// The command `sluice diff`: says in words what a reload would change, or how two files differ.
import { changesOf } from '../program/changes.ts'
import type { Change } from '../program/changes.ts'
import type { Problem } from '../catalogue/settings.ts'
import { withGateway } from './admin-access.ts'
import { addressOf, configOf, configOption, defineCommand, exits, jsonOption, UsageError } from './command.ts'

/** The answer of the admin API, as far as it is used here. */
interface Diff {
  changes: readonly Pick<Change, 'text'>[]
  problems: readonly Problem[]
}

export const diff = defineCommand({
  name: 'diff',
  summary: 'says in words what a reload would change',
  operands: ['[OLD]', '[NEW]'],
  options: { ...configOption, ...jsonOption },
  notes: `
Compares the configuration on disk with the one that the running gateway uses, or two files. Secrets are
never shown, only that they change. Nothing is changed. Exits with 2 when a reload would be refused.`,
  async run(options, [old, next]) {
    if (old !== undefined && next === undefined) throw new UsageError('NEW is missing: name two files, or none')
    const found = old === undefined ? await pending(options) : await between(old, next!)
    const { changes, problems } = found
    const lines = [...changes.map(({ text }) => text), ...problems.map(({ place, message }) => `${place} ${message}`)]
    const text = lines.length === 0 ? 'Nothing changes.' : lines.join('\n')
    process.stdout.write(`${options.json ? JSON.stringify(found) : text}\n`)
    return problems.length === 0 ? exits.ok : exits.invalid
  }
})

async function pending(options: { config: string }): Promise<Diff> {
  return withGateway(await addressOf(options), (admin) => admin.call<Diff>('GET', '/admin/v1/config/diff'))
}

async function between(old: string, next: string): Promise<Diff> {
  const [before, after] = [await configOf({ config: old }), await configOf({ config: next })]
  return { changes: changesOf(before, after), problems: [] }
}
