// Loaded into every Node of a test run. Finds the project's modules without looking at the disk, which saves a fifth of
// the time for loading them all; takes tap, and the program where it is run as a process of its own, from one file each
// where a run has made these (bundles.ts); and replaces the asynchronous hooks of tap, which would slow the gateways
// down (domain.ts).
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

const root = new URL('../', import.meta.url).href
/** The file of each module that is in one, which is undefined where nobody has made it. */
const bundles = {
  main: { url: new URL('core/main.ts', root).href, file: process.env['SLUICE_PROGRAM'] },
  // What lies in this folder is tap's own, which tap leaves out of the places that it tells of failures.
  tap: { url: new URL('node_modules/@tapjs/tap.mjs', root).href, file: process.env['SLUICE_TAP'] }
}

registerHooks({
  resolve(specifier, context, next) {
    const from = context.parentURL
    if (specifier === 'tap' && bundles.tap.file !== undefined)
      return { url: bundles.tap.url, format: 'module', shortCircuit: true }
    if (specifier === 'async-hook-domain')
      return { url: new URL('domain.ts', import.meta.url).href, format: 'module-typescript', shortCircuit: true }
    if (!/^\.\.?\/.*\.ts$/.test(specifier) || from?.startsWith(root) !== true || from.includes('/node_modules/'))
      return next(specifier, context)
    return { url: new URL(specifier, from).href, format: 'module-typescript', shortCircuit: true }
  },
  load(url, context, next) {
    const { file } = Object.values(bundles).find((one) => one.url === url) ?? {}
    if (file === undefined) return next(url, context)
    return { format: 'module', source: readFileSync(file), shortCircuit: true }
  }
})
