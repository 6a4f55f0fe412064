// The two forms in which a store keeps what it has: a commit log behind which the database is the store, and a journal
// in segments from which the database is made.
import { cpSync, existsSync, mkdirSync, mkdtempSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { volumeFolder } from '../../../../core/store/embedded/journal/volume.ts'
import { listNumbered, reachPath } from '../../../../core/store/embedded/segments/folder.ts'
import { openStore } from '../../../../core/store/embedded/store.ts'
import type { JournalForm, StoreOptions } from '../../../../core/store/embedded/store.ts'

/** One form. */
export interface Form {
  readonly name: 'log' | 'journal'
  /** The options that a store is opened with besides others. */
  readonly options: Pick<StoreOptions, 'form' | 'segments'>
}

/** Both. Segments are small, so that a test has many. */
export const forms = {
  log: { name: 'log', options: { form: 'database' } },
  journal: { name: 'journal', options: { form: 'segments', segments: { least: 64 * 1024, most: 256 * 1024 } } }
} as const satisfies Readonly<Record<string, Form>>

/**
 * The forms that something is tried in: both in a long run, and in the quick one a form each in turn, so that neither
 * costs more than one did.
 */
export function formsFor(turn: number): readonly Form[] {
  const all: readonly Form[] = Object.values(forms)
  return process.env['SLUICE_LONG'] === undefined ? [all[turn % all.length]!] : all
}

/** Makes an empty store of a form, with which whoever opens the file goes on. */
export async function begin(file: string, { options }: Form): Promise<void> {
  await (await openStore({ file, durability: 'process', ...options })).close()
}

/** The section `store` of a gateway whose store is of a form. */
export function storeOf(file: string, { options }: Form): { sqlite: string; journal: { form: JournalForm } } {
  return { sqlite: file, journal: { form: options.form! } }
}

/** How many segments of a journal have begun at least: behind the last of them the next one may be ready. */
export function begunIn(file: string): number {
  return (
    Math.max(0, ...listNumbered(volumeFolder(file)).map(({ kind, number }) => (kind === 'checkpoint' ? 0 : number))) - 1
  )
}

/** The files of a store as a crash at this moment would leave them. */
export function image(file: string): string {
  const copy = join(mkdtempSync(`${dirname(file)}/image-`), 'sluice.db')
  for (const ending of ['', '-wal', '.log0', '.log1']) copyFile(`${file}${ending}`, `${copy}${ending}`)
  const [from, to] = [volumeFolder(file), volumeFolder(copy)]
  if (!existsSync(from)) return copy
  mkdirSync(to)
  // What says how far the log has gone is copied before the log itself, which goes on.
  const numbered = listNumbered(from).map(({ path }) => path)
  for (const path of [reachPath(from), ...numbered]) copyFile(path, join(to, basename(path)))
  return copy
}

function copyFile(from: string, to: string): void {
  if (existsSync(from)) cpSync(from, to)
}
