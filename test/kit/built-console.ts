// Makes the gateways of a file of tests serve the console as the package holds it, by being imported. It is a few files
// in place of a hundred, so a page loads in half the CPU time. What was built is kept in .cache for all files.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { bundleConsole } from '../../.tools/console.ts'
import { listSources } from '../../core/admin/console/sources.ts'
import { common } from './gateway.ts'

const builder = join(import.meta.dirname, '../../.tools/console.ts')
const shelves = join(import.meta.dirname, '../../.cache/console')
/** Milliseconds after which a console of other sources is removed; a test that runs may still read a younger one. */
const keptFor = 86_400_000

/** Builds the console of these sources unless that was done before. */
async function built(): Promise<string> {
  const hash = createHash('sha256').update(readFileSync(builder))
  for (const { paths } of await listSources()) for (const path of paths) hash.update(path).update(readFileSync(path))
  const folder = join(shelves, hash.digest('hex').slice(0, 16))
  if (existsSync(folder)) return folder
  mkdirSync(shelves, { recursive: true })
  for (const name of readdirSync(shelves)) {
    const path = join(shelves, name)
    const { mtimeMs = Infinity } = statSync(path, { throwIfNoEntry: false }) ?? {}
    if (mtimeMs < Date.now() - keptFor) rmSync(path, { recursive: true, force: true })
  }
  const making = mkdtempSync(join(shelves, 'making-'))
  await bundleConsole(making)
  try {
    renameSync(making, folder)
  } catch (error) {
    // Another file has built the same meanwhile.
    if (!existsSync(folder)) throw error
    rmSync(making, { recursive: true })
  }
  return folder
}

common.console = await built()
