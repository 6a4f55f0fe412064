// Runs the tests (all, or the files and folders given), several at a time, and ends with one line that says how many
// assertions passed and failed. Before it stand what failed, once more, what was skipped and why, and the CPU time.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { existsSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { secondsOfEnded, watchIdle } from './processors.ts'
import { bundle } from './bundles.ts'
import { tell } from './tap.ts'
import type { Told } from './tap.ts'

const root = join(import.meta.dirname, '..')
/**
 * The files that run at the same time, whatever the machine does, and the most while a processor stands idle: some
 * wait for sockets and timers nearly all of the time, and others compute.
 */
const [jobs, most] = [availableParallelism() + 1, availableParallelism() * 4]
/** Milliseconds between two looks at whether a processor stands idle. */
const look = 500
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

/** Lines of what a file printed that are repeated at the end when it failed. */
const repeated = 60

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

/** How many lines are shown of what a file said before a signal ended it. */
const lastLines = 12

/** The result of one file. */
interface Result extends Omit<Told, 'output'> {
  file: string
  ms: number
  /** What was printed of a file that failed: its line, and everything that did not pass. Empty when nothing failed. */
  report: string[]
}

/** Runs one file and prints its result, with everything that did not pass when something failed. */
function runFile(file: string, running: Set<ChildProcess>): Promise<Result> {
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
    let cpu: number | undefined
    child.on('exit', () => (cpu = newSeconds()))
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      running.delete(child)
      const ms = performance.now() - began
      removeFolders(file)
      // What it was at is in no result.
      if (signal) errors.push('It said last:', ...lines.slice(-lastLines))
      const { passed, failed, skipped, output } = tell(lines)
      const clean = code === 0 && failed === 0 && passed > 0
      const took = `${(ms / 1000).toFixed(1)} s${cpu === undefined ? '' : `, ${cpu.toFixed(1)} s of CPU time`}`
      const end =
        code === 0 && passed > 0
          ? ''
          : ` (${signal ?? `exit code ${code}`}${passed + failed === 0 ? ', no assertion' : ''})`
      console.log(`${clean ? '✓' : '✗'} ${file} ${took}${clean ? '' : end}`)
      if (!clean) console.log([output, ...errors].join('\n'))
      const report = clean ? [] : [`✗ ${file}${end}`, ...output.split('\n'), ...errors]
      // A file may fail without a failed assertion, which must not look like success.
      resolve({ file, passed, failed: clean ? 0 : Math.max(failed, 1), skipped, ms, report })
    })
  })
}

/** Removes the folders that the tests of a file leave behind. What cannot be removed is left to their next run. */
function removeFolders(file: string): void {
  const own = file.replace(/[^\w.-]+/g, '-')
  const all = join(root, '.tap/fixtures')
  if (!existsSync(all)) return
  for (const name of readdirSync(all)) {
    if (name !== own && !name.startsWith(`${own}-`)) continue
    try {
      rmSync(join(all, name), { recursive: true, force: true, maxRetries: 10 })
    } catch {}
  }
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

/** Runs files, several at a time, in the given order. Takes from `queue` what it begins. */
function runEach(queue: string[], running: Set<ChildProcess>): Promise<Result[]> {
  return new Promise((resolve, reject) => {
    const results: Result[] = []
    const idle = watchIdle()
    const fill = (places: number): void => {
      while (running.size < places && queue.length > 0) void begin(queue.shift()!).catch(reject)
      if (running.size > 0) return
      clearInterval(timer)
      resolve(results)
    }
    const begin = async (file: string): Promise<void> => {
      results.push(await runFile(file, running))
      fill(jobs)
    }
    const timer = setInterval(() => {
      if (idle()) fill(Math.min(running.size + 1, most))
    }, look)
    fill(jobs)
  })
}

/** What was skipped, for which reasons and in which files, on one line; empty when nothing was. */
function skippedOf(results: readonly Result[]): string {
  const places = new Map<string, string[]>()
  for (const { file, skipped } of results)
    for (const reason of skipped) places.set(reason, [...(places.get(reason) ?? []), file])
  return [...places]
    .map(([reason, files]) => `${files.length} × ${reason} (${[...new Set(files)].toSorted().join(', ')})`)
    .join('; ')
}

/** Runs files. Exit code 0 when something passed and nothing failed. */
async function runAll(files: readonly string[]): Promise<number> {
  env['SLUICE_BUNDLES'] = JSON.stringify(await bundle())
  const times = readTimes()
  const queue = files.toSorted((one, other) => (times[other] ?? 0) - (times[one] ?? 0) || one.localeCompare(other))
  const running = new Set<ChildProcess>()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      queue.length = 0
      for (const child of running) child.kill(signal)
    })
  }
  const began = performance.now()
  const results = await runEach(queue, running)
  for (const { file, failed, ms } of results) if (failed === 0) times[file] = Math.round(ms)
  mkdirSync(join(root, '.cache'), { recursive: true })
  writeFileSync(timesFile, JSON.stringify(times))
  // A log of which only the end was kept still says what failed.
  for (const { report } of results) if (report.length > 0) console.log(report.slice(0, repeated).join('\n'))
  const skipped = skippedOf(results)
  if (skipped) console.log(`Skipped: ${skipped}`)
  const seconds = Math.round((performance.now() - began) / 1000)
  console.log(`${results.length} files in ${seconds} s${counted > 0 ? `, ${Math.round(counted)} s of CPU time` : ''}`)
  const sum = (kind: 'passed' | 'failed'): number => results.reduce((total, result) => total + result[kind], 0)
  const [passed, failed] = [sum('passed'), sum('failed')]
  console.log(`${passed} passed, ${failed} failed`)
  return failed === 0 && passed > 0 ? 0 : 1
}

const wanted = process.argv.slice(2)
try {
  process.exitCode = await runAll(filesOf(wanted.length > 0 ? wanted : ['test']))
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 2
}
