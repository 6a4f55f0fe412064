// The options of the commands that work on a store, and how they find its file.
import { plugins } from '../../plugins/index.ts'
import { readConfig } from '../program/configuration.ts'
import { configOption } from './command.ts'

/** The options `--config` and `--db`. */
export const storeOptions = {
  ...configOption,
  db: { value: 'FILE', text: 'the store itself, instead of the one of the configuration' }
} as const

/**
 * Returns the file of the store.
 * @throws ConfigError when the configuration is needed and has problems
 */
export async function storeOf({ db, config }: { db: string | undefined; config: string }): Promise<string> {
  return db ?? (await readConfig({ file: config, env: process.env, plugins })).config.settings.store.sqlite
}

/** Prints a line on standard output. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
