// The options of the commands that work on a store, and how they find its file.
import { plugins } from '../../../plugins/index.ts'
import { fileOf } from '../../catalogue/store-place.ts'
import { canonicalPath } from '../../store/embedded/files/lock.ts'
import { surveyBeside } from '../../store/embedded/recovery/survey.ts'
import { pendingSwap } from '../../store/embedded/files/swap.ts'
import { readConfig } from '../../program/configuration.ts'
import { configOption } from './command.ts'

/** The options `--config` and `--db`. */
export const storeOptions = {
  ...configOption,
  db: { value: 'FILE', text: 'the store itself, instead of the one of the configuration' }
} as const

/**
 * Returns the file of the store, for a command that reads it.
 * @throws ConfigError when the configuration is needed and has problems; Error when a restore of it was broken off
 */
export async function storeOf(given: { db: string | undefined; config: string }): Promise<string> {
  const file = await storeFile(given)
  const pending = pendingSwap(canonicalPath(file))
  if (!pending) return file
  throw new Error(
    `a restore of ${pending.source} to ${file} is under way or was broken off: start the gateway or repeat the restore, which completes it`
  )
}

/**
 * Returns the file of the store, for a command that owns it.
 * @throws ConfigError when the configuration is needed and has problems
 */
export async function storeFile({ db, config }: { db: string | undefined; config: string }): Promise<string> {
  if (db !== undefined) return db
  const { settings } = (await readConfig({ file: config, env: process.env, plugins })).config
  return fileOf(settings.store, 'This command works on a SQLite file')
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
