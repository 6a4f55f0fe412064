// Runs several test files in one process, one after another, each as a test of its own: a process and the modules that
// it loads cost more than most files do. After each it says what it came to.
// node --import=./.tools/resolve.ts .tools/together.ts FILE…
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import tap from 'tap'
import type { Test } from 'tap'

const root = join(import.meta.dirname, '..')
const files = process.argv.slice(2)
const fixtures = process.env['SLUICE_FIXTURES'] ?? join(root, '.tap/fixtures')
const urlOf = (file: string): string => pathToFileURL(join(root, file)).href
const urls = new Set(files.map(urlOf))
/** The end of the URL of tap as one file has it. */
const own = '?tap'

// Where a file asks for tap, it gets its own test, which is all that the whole run is to a file that runs alone.
registerHooks({
  resolve(specifier, context, next) {
    if (specifier !== 'tap' || !urls.has(context.parentURL ?? '')) return next(specifier, context)
    return { url: `${context.parentURL}${own}`, format: 'module', shortCircuit: true }
  },
  load(url, context, next) {
    if (!url.endsWith(own)) return next(url, context)
    const source = `import { running } from ${JSON.stringify(import.meta.url)}
export * from 'tap'
export default running()`
    return { format: 'module', source, shortCircuit: true }
  }
})

let test: Test

/** The test of the file that is being loaded. */
export function running(): Test {
  return test
}

/** What a file came to, as this process says it in a comment. */
export interface Came {
  file: string
  passed: number
  failed: number
  /** Seconds of this process. */
  cpu: number
  /** The kinds of what keeps the process from ending since then, such as a timer: a leak, or in its end. */
  left: string[]
}

/** The kinds of what has come, one for each. */
function since(before: readonly string[]): string[] {
  const rest = [...before]
  return process.getActiveResourcesInfo().filter((kind) => {
    const place = rest.indexOf(kind)
    if (place >= 0) rest.splice(place, 1)
    return place < 0
  })
}

/** The time limit of a file that sets none, in milliseconds, as the library has it for a process. */
const timeout = Number(process.env['TAP_TIMEOUT'] ?? 30) * 1000
tap.setTimeout(0)

for (const file of files)
  void tap.test(file, { timeout }, async (t) => {
    test = t
    // As it is called when the file runs alone.
    t.testdirName = join(fixtures, file.replaceAll(/[^\w.-]+/g, '-'))
    const [before, active] = [process.cpuUsage(), process.getActiveResourcesInfo()]
    // The last of all: whatever the file itself leaves for its end comes before.
    t.teardown(() => {
      const { user, system } = process.cpuUsage(before)
      const { pass: passed, fail: failed } = t.counts
      const came: Came = { file, passed, failed, cpu: (user + system) / 1e6, left: since(active) }
      tap.comment(JSON.stringify(came))
    })
    await import(urlOf(file))
  })
