// Puts an earlier gateway.yaml back, and reloads it.
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync
} from 'node:fs'
import type { Config } from '../catalogue/settings.ts'
import type { PastConfig } from './config-history.ts'
import type { Reloader, ReloadResult } from './reload.ts'

/** Why nothing was put back: the file cannot be written, or is not what it should be. The message is for people. */
export class RollbackRefused extends Error {
  override readonly name = 'RollbackRefused'
}

/** The result. `aside`: where the file is now that was there before. */
export interface Rollback extends ReloadResult {
  readonly aside: string
}

/**
 * Writes the text of `past` over the file, keeps the present file aside, and reloads. When the reload is refused, the
 * present file is put back.
 * @throws RollbackRefused when the file on disk is not the one in use, unless `force`, or cannot be written
 */
export async function rollBack(
  { file, hash }: Pick<Config, 'file' | 'hash'>,
  past: PastConfig,
  { by, force }: { by: string; force: boolean },
  reloader: Pick<Reloader, 'reload'>
): Promise<Rollback> {
  const target = realpathSync(file)
  const onDisk = createHash('sha256').update(readFileSync(target)).digest('hex')
  if (onDisk !== hash && !force)
    throw new RollbackRefused(
      `${file} is not the file in use: it was edited since, and \`sluice diff\` says how. With force it is replaced all the same, and kept aside.`
    )
  const aside = `${target}.${onDisk.slice(0, 12)}`
  try {
    const { mode } = statSync(target)
    copyFileSync(target, aside)
    chmodSync(aside, mode)
    replace(target, past.text, mode)
  } catch (error) {
    throw new RollbackRefused(
      `${file} cannot be replaced (${(error as Error).message}): put the file back where it comes from, and reload.`
    )
  }
  const result = await reloader.reload('rollback', by)
  if (!result.ok) replace(target, readFileSync(aside, 'utf8'), statSync(aside).mode)
  return { ...result, aside }
}

/** Puts a text in the place of a file at once, so that nobody reads half of it. */
function replace(target: string, text: string, mode: number): void {
  const fresh = `${target}.new`
  try {
    // What lies there may be a link to somewhere else, or the rest of a rollback that was killed.
    rmSync(fresh, { force: true })
    writeFileSync(fresh, text, { mode: mode & 0o777, flag: 'wx', flush: true })
    chmodSync(fresh, mode & 0o777)
    renameSync(fresh, target)
  } finally {
    rmSync(fresh, { force: true })
  }
}
