// The options of the commands that work on a store, and how they find its file.
import { plugins } from '../../plugins/index.ts'
import { surveyBeside } from '../store/survey.ts'
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

/** Says on standard error how many batches are still in the commit log, because the output does not include them. */
export function noteLog(file: string): void {
  const { batches } = surveyBeside(file)
  if (batches === 0) return
  process.stderr.write(
    `${batches === 1 ? '1 batch is' : `${batches.toLocaleString('en-US')} batches are`} in the commit log of ${file} and not in the database: a running gateway takes them over in a moment, a stopped one when it starts\n`
  )
}
