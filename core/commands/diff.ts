// The command `sluice diff`: says in words what a reload would change, or how two files differ.
import { changesOf } from '../program/changes.ts'
import type { Change } from '../program/changes.ts'
import type { Problem } from '../catalogue/settings.ts'
import { accessOptions, gatewayNote, withGateway } from './asking/admin-access.ts'
import type { Access } from './asking/admin-access.ts'
import { configOf, defineCommand, exits, jsonOption } from './command/command.ts'

/** The answer of the admin API, as far as it is used here. */
interface Diff {
  changes: readonly Pick<Change, 'text'>[]
  problems: readonly Problem[]
}

export const diff = defineCommand({
  name: 'diff',
  summary: 'says in words what a reload would change',
  operands: ['[FILE]', '[NEW]'],
  options: { ...accessOptions, ...jsonOption },
  notes: `
Compares the configuration on disk with the one that the running gateway uses; with FILE, that one with
what would be FILE in its place; with FILE and NEW, the two. What they include is relative to them.
Secrets are never shown, only that they change. Nothing is changed. Exits with 2 when a reload would be refused.${gatewayNote}`,
  async run(options, [file, next]) {
    const found =
      file === undefined
        ? await pending(options)
        : next === undefined
          ? await proposed(options, file)
          : await between(file, next)
    const { changes, problems } = found
    const lines = [...changes.map(({ text }) => text), ...problems.map(({ place, message }) => `${place} ${message}`)]
    const text = lines.length === 0 ? 'Nothing changes.' : lines.join('\n')
    process.stdout.write(`${options.json ? JSON.stringify(found) : text}\n`)
    return problems.length === 0 ? exits.ok : exits.invalid
  }
})

async function pending(options: Access): Promise<Diff> {
  return withGateway(options, (admin) => admin.call<Diff>('GET', '/admin/v1/config/diff'))
}

/** What `next` would change, read in the environment of this command. */
async function proposed(options: Access, next: string): Promise<Diff> {
  const before = await configOf(options)
  await withGateway(options, async (admin) => {
    const { hash, file } = await admin.call<{ hash: string; file: string }>('GET', '/admin/v1/config')
    if (hash !== before.hash)
      throw new Error(`${file} is not the file in use: \`sluice diff\` says what is pending. Or name two files.`)
  })
  return between(options.config, next)
}

async function between(old: string, next: string): Promise<Diff> {
  const [before, after] = [await configOf({ config: old }), await configOf({ config: next })]
  return { changes: await changesOf(before, after), problems: [] }
}
