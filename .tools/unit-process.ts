// Runs the test files of one process, and prints the result of each.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { secondsOfEnded } from './processors.ts'
import { tell, tellEach } from './tap.ts'
import type { Told } from './tap.ts'
import type { Unit } from './units.ts'

const root = join(import.meta.dirname, '..')
/**
 * Milliseconds for a file until its process is killed. The library enforces the time limits of tests; this is for one
 * that hangs in a loop, or is left open.
 */
const patience = process.env['SLUICE_LONG'] === undefined ? 900_000 : 7_200_000

/** How many lines are shown of what a file said before a signal ended it. */
const lastLines = 12

/** The result of one file. */
export interface Result extends Told {
  file: string
  /** Undefined when it did not get to its end. */
  ms: number | undefined
  /** What was printed of a file that failed: its line, and everything that did not pass. Empty when nothing failed. */
  report: string[]
}

/**
 * Runs the files of a process and prints the result of each, with everything that did not pass when something failed.
 * The process is in `running` while it lives.
 */
export function runUnit({ files }: Unit, env: NodeJS.ProcessEnv, running: Set<ChildProcess>): Promise<Result[]> {
  return new Promise((resolve) => {
    const began = performance.now()
    const [file] = files as [string]
    const shared = files.length > 1
    const args = shared ? [join(import.meta.dirname, 'together.ts'), ...files] : [join(root, file)]
    const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], env })
    running.add(child)
    const lines: string[] = []
    createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
    // Kept apart: what `tell` leaves out because a test passed would take these lines with it.
    const errors: string[] = []
    createInterface({ input: child.stderr }).on('line', (line) => errors.push(line))
    const timer = setTimeout(() => {
      errors.push(`It did not end within ${(patience * files.length) / 1000} s and was killed.`)
      child.kill('SIGKILL')
    }, patience * files.length)
    let cpu: number | undefined
    child.on('exit', () => (cpu = newSeconds()))
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      running.delete(child)
      const ms = performance.now() - began
      for (const file of files) removeFolders(file, env['SLUICE_FIXTURES'] ?? join(root, '.tap/fixtures'))
      const each = shared ? tellEach(files, lines) : [{ ...tell(lines), file, ms, cpu: 0, left: [] }]
      // What it was at is in no result.
      if (signal) errors.push('It said last:', ...lines.slice(-lastLines))
      if (signal)
        for (const { file, left } of each) if (left.length > 0) errors.push(`${file} left open: ${left.join()}`)
      // What the process took beside its files is shared among them.
      const rest = cpu && (cpu - each.reduce((sum, one) => sum + one.cpu, 0)) / each.length
      const ok = each.every(({ failed, ms }) => failed === 0 && ms !== undefined)
      resolve(
        each.map((told) => {
          // An end of the process that nothing told of is that of all its files.
          const ended =
            code === 0 || (shared && !ok && told.ms !== undefined) ? undefined : (signal ?? `exit code ${code}`)
          return print(told, rest && told.cpu + rest, ended, errors)
        })
      )
    })
  })
}

/**
 * Prints the result of a file. `cpu`: its seconds. `ended`: how its process ended, unless that was in the regular way.
 * `errors`: what the process wrote beside its results.
 */
function print(
  told: Omit<Result, 'report'>,
  cpu: number | undefined,
  ended: string | undefined,
  errors: readonly string[]
): Result {
  const { file, passed, failed, skipped, ms, output } = told
  const clean = ended === undefined && failed === 0 && passed > 0
  const took = ms === undefined ? 'not to its end' : `${(ms / 1000).toFixed(1)} s`
  const used = cpu === undefined ? '' : `, ${cpu.toFixed(1)} s of CPU time`
  const end =
    ended === undefined && passed > 0
      ? ''
      : ` (${[ended, passed + failed === 0 && 'no assertion'].filter(Boolean).join(', ')})`
  console.log(`${clean ? '✓' : '✗'} ${file} ${took}${used}${clean ? '' : end}`)
  if (!clean) console.log([output, ...errors].join('\n'))
  const report = clean ? [] : [`✗ ${file}${end}`, ...output.split('\n'), ...errors]
  // A file may fail without a failed assertion, which must not look like success.
  return { file, passed, failed: clean ? 0 : Math.max(failed, 1), skipped, ms, output, report }
}

/**
 * Removes the folders within `all` that the tests of a file leave behind. What cannot be removed is left to their next
 * run.
 */
function removeFolders(file: string, all: string): void {
  const own = file.replace(/[^\w.-]+/g, '-')
  if (!existsSync(all)) return
  for (const name of readdirSync(all)) {
    if (name !== own && !name.startsWith(`${own}-`)) continue
    try {
      rmSync(join(all, name), { recursive: true, force: true, maxRetries: 10 })
    } catch {}
  }
}

/** Seconds of CPU time of all files so far; 0 where there is no telling. */
export function secondsOfAll(): number {
  return counted
}

let counted = 0
/** What ended since the last call has taken. Each file that ends is counted at once, so it is the time of that file. */
function newSeconds(): number | undefined {
  const all = secondsOfEnded()
  if (all === undefined) return undefined
  const taken = all - counted
  counted = all
  return taken
}
