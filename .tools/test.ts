// Runs the tests (all, or the files and folders given), some at a time, and ends with one line: how many assertions
// passed and failed.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { tell } from './tap.ts'

const root = join(import.meta.dirname, '..')
/** Tests wait a good deal, for sockets and clocks: more of them than there are processors keep these busy. */
const jobs = availableParallelism() + 1
/**
 * Milliseconds until a file is killed. Tests have time limits of their own, which the library keeps; this is for one
 * that hangs in its loop.
 */
const patience = process.env['SLUICE_LONG'] === undefined ? 600_000 : 7_200_000
/** Seconds that a test may take unless it says otherwise: only what hangs takes that long, also on a busy machine. */
const limit = '240'

/** For all processes of a file, unless it gives them an environment of their own. */
const env = {
  ...process.env,
  TAP_TIMEOUT: limit,
  NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import=${new URL('resolve.ts', import.meta.url).href}`
}

/** How long each file took when it ran last, in milliseconds: those that take longest begin first. */
const timesFile = join(root, '.cache/test-times.json')

function readTimes(): Record<string, number> {
  try {
    return JSON.parse(readFileSync(timesFile, 'utf8')) as Record<string, number>
  } catch {
    return {}
  }
}

/** @throws Error for a name that leads to no test */
function filesOf(names: readonly string[]): string[] {
  return names.flatMap((name) => {
    const path = relative(root, join(process.cwd(), name))
    const folder = statSync(join(root, path), { throwIfNoEntry: false })?.isDirectory()
    const found = globSync(folder ? join(path, '**/*.test.ts') : path, { cwd: root, exclude: ['**/node_modules/**'] })
    if (found.length === 0) throw new Error(`${name} is no test, and no folder with any`)
    return found
  })
}

/** What came of one file. */
interface Result {
  passed: number
  failed: number
}

/** Runs one file and says what came of it, with everything but what passed when something failed. */
function runFile(file: string, running: Set<ChildProcess>): Promise<Result & { ms: number }> {
  return new Promise((resolve) => {
    const began = performance.now()
    const child = spawn(process.execPath, [join(root, file)], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], env })
    running.add(child)
    const lines: string[] = []
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => lines.push(line))
    const timer = setTimeout(() => {
      lines.push(`It did not end within ${patience / 1000} s and was killed.`)
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
      if (!clean) console.log(output)
      // A file may fail where no assertion did; that must not look like success.
      resolve({ passed, failed: clean ? 0 : Math.max(failed, 1), ms })
    })
  })
}

/** Runs files, some at a time. Exit code 0: something passed and nothing failed. */
async function runAll(files: readonly string[]): Promise<number> {
  const times = readTimes()
  const queue = files.toSorted(
    (one, other) => (times[other] ?? patience) - (times[one] ?? patience) || one.localeCompare(other)
  )
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
