// Runs the tests (all, or the files and options given) and ends with one line: how many assertions passed and failed.
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/** A test point of TAP: its depth, verdict and name, without what follows in a comment. */
const point = /^( *)(not )?ok \d+(?: - (.*?))?(?: # (?:time=([\d.]+m?s).*|(SKIP|TODO).*))?$/
/** Lines that say nothing once points are counted. */
const noise = /^ *(1\.\.\d+|# time=|TAP version)/
/** What is left to tell of a file that failed as a whole. */
const cause = /^ {2}(exitCode|signal|timeout|error|failure): (?!null|0$)/

/** Shows a TAP stream: a line for each file, and of those that failed everything but what passed. */
class Report {
  /** tap's own count of assertions; undefined until it has been told. */
  count: { passed: number; failed: number } | undefined
  #block: string[] = []

  line(line: string): void {
    const summary = /^# \{ total: \d+,.*\}$/.test(line)
    if (summary) this.count = { passed: numberOf(line, 'pass'), failed: numberOf(line, 'fail') }
    const [, indent, not, name = '', time = '', skipped] = point.exec(line) ?? []
    if (indent === undefined) {
      if (!summary && /\S/.test(line) && !noise.test(line)) this.#block.push(line)
    } else if (indent === '') this.#file(name, not !== undefined, skipped ?? time)
    else this.#settle(indent, name, not !== undefined)
  }

  #file(name: string, failed: boolean, detail: string): void {
    // Diagnostics of the file before stand at the head of this block.
    const begin = this.#block.indexOf(`# Subtest: ${name}`)
    const [before, own] = [this.#block.slice(0, Math.max(begin, 0)), this.#block.slice(begin + 1)]
    this.#causes(before)
    console.log(`${failed ? '✗' : '✓'} ${name} ${detail}`)
    if (failed && own.length > 0) console.log(own.join('\n'))
    this.#block = []
  }

  /** A test or assertion is over: what passed leaves no trace. */
  #settle(indent: string, name: string, failed: boolean): void {
    const header = this.#block.lastIndexOf(`${indent}# Subtest: ${name}`)
    if (!failed && header >= 0) this.#block.length = header
    else if (failed && header >= 0) this.#block[header] = `${indent}✗ ${name}`
    else if (failed) this.#block.push(`${indent}✗ ${name}`)
  }

  end(): void {
    this.#causes(this.#block)
  }

  #causes(lines: readonly string[]): void {
    for (const line of lines) if (cause.test(line)) console.log(line)
  }
}

function numberOf(summary: string, name: string): number {
  return Number(new RegExp(`\\b${name}: (\\d+)`).exec(summary)?.[1] ?? 0)
}

const root = join(import.meta.dirname, '..')
const tap = join(root, 'node_modules/tap/dist/esm/run.mjs')

/**
 * tap bakes its plugins in. Where those that .taprc turns off are still there it would bake anew by itself, but too late
 * for that run: its TypeScript loader would run once more, which does not work with a compiler that has no API any more.
 */
function bakePlugins(): void {
  const read = (file: string): string => readFileSync(join(root, file), 'utf8')
  const baked = read('node_modules/@tapjs/test/test-built/dist/esm/index.js')
  const unwanted = Array.from(read('.taprc').matchAll(/^ *- "!(.+)"$/gm), ([, name]) => name!)
  if (!unwanted.some((name) => baked.includes(`'${name}'`) || baked.includes(`"${name}"`))) return
  const { status } = spawnSync(process.execPath, [tap, 'build'], { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) throw new Error('"tap build" failed: its messages stand above')
}

bakePlugins()
const child = spawn(process.execPath, [tap, 'run', '--reporter=tap', ...process.argv.slice(2)], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
const report = new Report()
createInterface({ input: child.stdout }).on('line', (line) => report.line(line))
child.on('close', (code) => {
  report.end()
  const { passed, failed } = report.count ?? { passed: 0, failed: 0 }
  const clean = code === 0 && failed === 0
  if (passed + failed === 0) console.log('No test ran.')
  // The runner itself may fail where no assertion did; that must not look like success.
  console.log(`${passed} passed, ${clean ? failed : Math.max(failed, 1)} failed`)
  process.exitCode = clean && passed > 0 ? 0 : 1
})
