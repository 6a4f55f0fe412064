// Loaded into every Node of a test run. Finds the project's modules without looking at the disk, which saves a fifth of
// the time for loading them all; takes tap, and the programs that are run as processes and threads of their own, from
// one file each where a run has made these (bundles.ts); and replaces the asynchronous hooks of tap, which would slow
// the gateways down (domain.ts).
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

const root = new URL('../', import.meta.url).href
/** The URL of tap in one file. What lies in this folder is tap's own, which it leaves out of the places of failures. */
const tapUrl = new URL('node_modules/@tapjs/tap.mjs', root).href
/** The files of the modules that are in one each, by their URLs, and of tap. */
const bundles = JSON.parse(process.env['SLUICE_BUNDLES'] ?? '{}') as Record<string, string>

registerHooks({
  resolve(specifier, context, next) {
    const from = context.parentURL
    if (specifier === 'tap' && 'tap' in bundles) return { url: tapUrl, format: 'module', shortCircuit: true }
    if (specifier === 'async-hook-domain')
      return { url: new URL('domain.ts', import.meta.url).href, format: 'module-typescript', shortCircuit: true }
    if (!/^\.\.?\/.*\.ts$/.test(specifier) || from?.startsWith(root) !== true || from.includes('/node_modules/'))
      return next(specifier, context)
    return { url: new URL(specifier, from).href, format: 'module-typescript', shortCircuit: true }
  },
  load(url, context, next) {
    const file = bundles[url === tapUrl ? 'tap' : url]
    if (file === undefined) return next(url, context)
    return { format: 'module', source: readFileSync(file), shortCircuit: true }
  }
})
