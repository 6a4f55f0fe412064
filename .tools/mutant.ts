// Loaded into the processes of a test that should notice a planted fault. Puts the fault into one module when that is
// loaded.
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'

/** A place in a module and its replacement. Offsets are in UTF-16 units. */
export interface Fault {
  url: string
  from: number
  to: number
  text: string
}

const fault = JSON.parse(process.env['SLUICE_FAULT']!) as Fault

registerHooks({
  load(url, context, next) {
    if (url !== fault.url) return next(url, context)
    const whole = readFileSync(fileURLToPath(url), 'utf8')
    const source = whole.slice(0, fault.from) + fault.text + whole.slice(fault.to)
    return { source, format: 'module-typescript', shortCircuit: true }
  }
})
