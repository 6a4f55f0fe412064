// Loaded into every Node of a test run. Finds the project's modules without looking at the disk, which saves a fifth of
// the time for loading them all, and replaces the asynchronous hooks of tap, which would slow the gateways down
// (domain.ts).
import { registerHooks } from 'node:module'

const root = new URL('../', import.meta.url).href

registerHooks({
  resolve(specifier, context, next) {
    const from = context.parentURL
    if (specifier === 'async-hook-domain')
      return { url: new URL('domain.ts', import.meta.url).href, format: 'module-typescript', shortCircuit: true }
    if (!/^\.\.?\/.*\.ts$/.test(specifier) || from?.startsWith(root) !== true || from.includes('/node_modules/'))
      return next(specifier, context)
    return { url: new URL(specifier, from).href, format: 'module-typescript', shortCircuit: true }
  }
})
