// Runs the tests (all, or the files and folders given), several at a time, and ends with one line that says how many
// assertions passed and failed.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { bundleProgram } from './program.ts'
import { tell } from './tap.ts'

const root = join(import.meta.dirname, '..')
/** Tests wait for sockets and timers a quarter of the time, so there are more processes than there are processors. */
const jobs = availableParallelism() + 2
/**
 * Milliseconds until a file is killed. The library enforces the time limits of tests; this is for a file that hangs in
 * a loop.
 */
const patience = process.env['SLUICE_LONG'] === undefined ? 900_000 : 7_200_000
/** The environment of all processes of a file, unless the file gives them another one. */
const env: NodeJS.ProcessEnv = {
  ...process.env,
  NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import=${new URL('resolve.ts', import.meta.url).href}`
}

/** The last duration of each file in milliseconds. The files that take longest are started first. */
const timesFile = join(root, '.cache/test-times.json')
/** The seconds of those that take longest, for a clone that has run none of them. */
const usualFile = join(root, '.tools/test-times.json')

function readTimes(): Record<string, number> {
  const usual = JSON.parse(readFileSync(usualFile, 'utf8')) as Record<string, number>
  const times = Object.fromEntries(Object.entries(usual).map(([file, seconds]) => [file, seconds * 1000]))
  try {
    return { ...times, ...(JSON.parse(readFileSync(timesFile, 'utf8')) as Record<string, number>) }
  } catch {
    return times
  }
}

/**
 * The test files for the given names.
 * @throws Error for a name without any test
 */
function filesOf(names: readonly string[]): string[] {
  return names.flatMap((name) => {
    const path = relative(root, join(process.cwd(), name))
    const folder = statSync(join(root, path), { throwIfNoEntry: false })?.isDirectory()
    const found = globSync(folder ? join(path, '**/*.test.ts') : path, { cwd: root, exclude: ['**/node_modules/**'] })
    if (found.length === 0) throw new Error(`${name} is no test, and no folder with any`)
    return found
  })
}

/** The result of one file. */
interface Result {
  passed: number
  failed: number
}

/** Runs one file and prints its result, with everything that did not pass when something failed. */
function runFile(file: string, running: Set<ChildProcess>): Promise<Result & { ms: number }> {
  return new Promise((resolve) => {
    const began = performance.now()
    const child = spawn(process.execPath, [join(root, file)], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], env })
    running.add(child)
    const lines: string[] = []
    createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
    // Kept apart: what `tell` leaves out because a test passed would take these lines with it.
    const errors: string[] = []
    createInterface({ input: child.stderr }).on('line', (line) => errors.push(line))
    const timer = setTimeout(() => {
      errors.push(`It did not end within ${patience / 1000} s and was killed.`)
      child.kill('SIGKILL')
    }, patience)
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      running.delete(child)
      const ms = performance.now() - began
      const { passed, failed, output } = tell(lines)
      const clean = code === 0 && failed === 0 && passed > 0
      const end =
        code === 0 && passed > 0
          ? ''
          : ` (${signal ?? `exit code ${code}`}${passed + failed === 0 ? ', no assertion' : ''})`
      console.log(`${clean ? '✓' : '✗'} ${file} ${(ms / 1000).toFixed(1)} s${clean ? '' : end}`)
      if (!clean) console.log([output, ...errors].join('\n'))
      // A file may fail without a failed assertion, which must not look like success.
      resolve({ passed, failed: clean ? 0 : Math.max(failed, 1), ms })
    })
  })
}

/** Runs files, several at a time. Exit code 0 when something passed and nothing failed. */
async function runAll(files: readonly string[]): Promise<number> {
  env['SLUICE_PROGRAM'] = await bundleProgram()
  const times = readTimes()
  const queue = files.toSorted((one, other) => (times[other] ?? 0) - (times[one] ?? 0) || one.localeCompare(other))
  const running = new Set<ChildProcess>()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      queue.length = 0
      for (const child of running) child.kill(signal)
    })
  }
  const total: Result = { passed: 0, failed: 0 }
  await Promise.all(
    Array.from({ length: jobs }, async () => {
      for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
        const { passed, failed, ms } = await runFile(file, running)
        total.passed += passed
        total.failed += failed
        if (failed === 0) times[file] = Math.round(ms)
      }
    })
  )
  mkdirSync(join(root, '.cache'), { recursive: true })
  writeFileSync(timesFile, JSON.stringify(times))
  console.log(`${total.passed} passed, ${total.failed} failed`)
  return total.failed === 0 && total.passed > 0 ? 0 : 1
}

const wanted = process.argv.slice(2)
try {
  process.exitCode = await runAll(filesOf(wanted.length > 0 ? wanted : ['test']))
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 2
}
