// Loads the program for the published command, on a Node that can, with what V8 compiled for the starts before.
const { mkdirSync, statSync } = require('node:fs')
const { enableCompileCache } = require('node:module')
const { isAbsolute, join } = require('node:path')

/**
 * Where the compiled code is kept: in the user's folder for caches, unless NODE_COMPILE_CACHE names another. Undefined
 * where there is none, or where others may write: code of theirs would run.
 */
function cacheFolder() {
  const { HOME = '', XDG_CACHE_HOME } = process.env
  const folder = join(XDG_CACHE_HOME || join(HOME, '.cache'), 'sluice')
  if (!isAbsolute(folder)) return undefined
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { uid, mode } = statSync(folder)
    return uid === process.getuid?.() && (mode & 0o022) === 0 ? folder : undefined
  } catch {
    return undefined
  }
}

const folder = cacheFolder()
if (folder !== undefined) enableCompileCache(folder)
void import('./main.ts')
