// Puts an earlier gateway.yaml with its included files back, and reloads it.
import { join } from 'node:path'
import { pathBeside } from '../../config/files/includes.ts'
import { Files } from '../../config/files/files.ts'
import type { Config } from '../catalogue/settings.ts'
import type { PastConfig } from './config-history.ts'
import type { Reloader } from './reload.ts'
import { replaceAndReload, ReplacementRefused } from './replacement.ts'
import type { ReplacedReload, Wanted } from './replacement.ts'

/** How a rollback is asked for. `current` gives the configuration in use. */
export interface RollbackAsked {
  readonly by: string
  readonly force: boolean
  current(): Pick<Config, 'file' | 'texts' | 'folders'>
}

/**
 * Writes the texts of `past` over the files of the present configuration, keeps what they replace aside, and reloads.
 * Further files in a folder that `past` includes are moved aside. When the reload is refused, all is as before, except
 * for files that somebody has changed meanwhile: those stay, and are named. No other reload or rollback comes between.
 * @throws ReplacementRefused when the files on disk are not those in use, unless `force`, or cannot be written
 */
export function rollBack(
  past: PastConfig,
  asked: RollbackAsked,
  reloader: Pick<Reloader, 'alone'>
): Promise<ReplacedReload> {
  return reloader.alone((reload) => replaceAll(past, asked, reload))
}

async function replaceAll(
  past: PastConfig,
  { by, force, current }: RollbackAsked,
  reload: Reloader['reload']
): Promise<ReplacedReload> {
  const config = current()
  const edited = force ? undefined : editOf(config)
  if (edited !== undefined)
    throw new ReplacementRefused(
      `${edited} is not the file in use: it was edited since, and \`sluice diff\` says how. With force it is replaced all the same, and kept aside.`
    )
  return replaceAndReload(changesTo(config.file, past), () => reload('rollback', by), true)
}

/** The first file that is not as it is in use; undefined when all are. */
function editOf({ file, texts, folders }: Pick<Config, 'file' | 'texts' | 'folders'>): string | undefined {
  const edited = texts.find((one) => new Files().read(one.file).bytes?.toString('utf8') !== one.text)
  if (edited) return edited.file
  const known = new Set(texts.map((one) => one.file))
  return folders.flatMap((name) => yamlFilesOf(pathBeside(file, name))).find((path) => !known.has(path))
}

function changesTo(main: string, { text, included, folders }: PastConfig): [Wanted, ...Wanted[]] {
  const kept = included.map((one) => ({ file: pathBeside(main, one.name), text: one.text }))
  const known = new Set([main, ...kept.map(({ file }) => file)])
  const more = folders.flatMap((name) => yamlFilesOf(pathBeside(main, name))).filter((file) => !known.has(file))
  return [{ file: main, text }, ...kept, ...more.map((file) => ({ file, text: undefined }))]
}

/** The files of a folder that an include takes; none when there is no such folder. */
function yamlFilesOf(folder: string): string[] {
  return (new Files().list(folder) ?? []).map((name) => join(folder, name))
}
