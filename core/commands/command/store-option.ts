// The options of the commands that work on a store, and how they find its file.
import { plugins } from '../../../plugins/index.ts'
import type { FilePlace, SharedPlace } from '../../catalogue/store-place.ts'
import { readAddress } from '../../store/cluster/database/address.ts'
import { canonicalPath } from '../../store/embedded/files/lock.ts'
import { surveyBeside } from '../../store/embedded/recovery/survey.ts'
import { pendingSwap } from '../../store/embedded/files/swap.ts'
import { readConfig } from '../../program/configuration.ts'
import { configOption, UsageError } from './command.ts'

/** The options `--config` and `--db`. */
export const storeOptions = {
  ...configOption,
  db: {
    value: 'PLACE',
    text: "the store itself, instead of the one of the configuration: a file, or '${NAME}' for a URL of PostgreSQL"
  }
} as const

/** What those options were given as. */
export interface StoreGiven {
  readonly db: string | undefined
  readonly config: string
}

/** Where a store is, as far as a command that reads it has to know. */
export type ReadPlace =
  | FilePlace
  | { readonly sqlite?: undefined; readonly postgres: Pick<SharedPlace['postgres'], 'url' | 'shown'> }

/**
 * Returns where the store is.
 * @throws ConfigError when the configuration is needed and has problems
 */
export async function placeOf({ db, config }: StoreGiven): Promise<ReadPlace> {
  if (db !== undefined) return readPlace('--db', db)
  return (await readConfig({ file: config, env: process.env, plugins })).config.settings.store
}

/**
 * Reads a place that an option names: a file, a URL, or `${NAME}` for what a variable of the environment has, so that
 * no password is on a command line.
 * @throws UsageError when the variable is not set; Error when the URL is wrong
 */
export function readPlace(option: string, text: string): ReadPlace {
  const [, name] = /^\$\{(\w+)\}$/.exec(text) ?? []
  const place = name === undefined ? text : process.env[name]
  if (!place) throw new UsageError(`${option} is ${JSON.stringify(text)}, and the environment has nothing of this name`)
  if (!/^postgres(?:ql)?:\/\//.test(place)) return { sqlite: place }
  return { postgres: { url: place, shown: `postgres://${readAddress(place).shown}` } }
}

/**
 * Returns a file whose store is to be read.
 * @throws Error when a restore of it was broken off
 */
export function restored(file: string): string {
  const pending = pendingSwap(canonicalPath(file))
  if (!pending) return file
  throw new Error(
    `a restore of ${pending.source} to ${file} is under way or was broken off: start the gateway or repeat the restore, which completes it`
  )
}

/**
 * Returns the file of the store, for a command that is for files alone. `what`: what it does, as in `copies a store`;
 * `instead`: what does the same in PostgreSQL.
 * @throws ConfigError when the configuration is needed and has problems; Error when the store is in PostgreSQL
 */
export async function storeFile(given: StoreGiven, what: string, instead: string): Promise<string> {
  const place = await placeOf(given)
  if (place.sqlite !== undefined) return place.sqlite
  throw new Error(`this ${what} in a SQLite file, and the store is ${place.postgres.shown}: ${instead}`)
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
