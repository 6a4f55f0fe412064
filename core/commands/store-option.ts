// The store that a command is about: its options, and where its file is.
import { plugins } from '../../plugins/index.ts'
import { readConfig } from '../program/configuration.ts'
import { configOption } from './command.ts'

/** `--config` or `--db`. */
export const storeOptions = {
  ...configOption,
  db: { value: 'FILE', text: 'the store itself, instead of the one of the configuration' }
} as const

/** The file of the store. @throws ConfigError when the configuration has to be asked and has problems */
export async function storeOf({ db, config }: { db: string | undefined; config: string }): Promise<string> {
  return db ?? (await readConfig({ file: config, env: process.env, plugins })).config.settings.store.sqlite
}

/** A line on standard output. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
