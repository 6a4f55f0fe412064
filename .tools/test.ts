// Runs the tests (all, or the files and folders given), several at a time, and ends with one line that says how many
// assertions passed and failed. Before it stand what failed, once more, what was skipped and why, and the CPU time.
import type { ChildProcess } from 'node:child_process'
import { globSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { bundle } from './bundles.ts'
import { watchIdle } from './processors.ts'
import { makeScratch } from './scratch.ts'
import { Times } from './times.ts'
import { runUnit, secondsOfAll } from './unit-process.ts'
import type { Result } from './unit-process.ts'
import { unitsOf } from './units.ts'
import type { Unit } from './units.ts'

const root = join(import.meta.dirname, '..')
/**
 * The processes that run at the same time, whatever the machine does, and the most while a processor stands idle: some
 * wait for sockets and timers nearly all of the time, and others compute.
 */
const [jobs, most] = [availableParallelism() + 2, availableParallelism() * 4]
/** Milliseconds between two looks at whether a processor stands idle. */
const look = 250
/** The environment of all processes, unless a file gives those that it starts another one. */
const env: NodeJS.ProcessEnv = {
  ...process.env,
  NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import=${new URL('resolve.ts', import.meta.url).href}`
}

/** Lines of what a file printed that are repeated at the end when it failed. */
const repeated = 60

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

/** Runs processes, several at a time, in the given order. Takes from `queue` what it begins. */
function runEach(queue: Unit[], running: Set<ChildProcess>): Promise<Result[]> {
  return new Promise((resolve, reject) => {
    const results: Result[] = []
    const idle = watchIdle()
    const fill = (places: number): void => {
      while (running.size < places && queue.length > 0) void begin(queue.shift()!).catch(reject)
      if (running.size > 0) return
      clearInterval(timer)
      resolve(results)
    }
    const begin = async (unit: Unit): Promise<void> => {
      results.push(...(await runUnit(unit, env, running)))
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
  Object.assign(env, makeScratch())
  const times = new Times()
  const queue = unitsOf(files, times)
  const running = new Set<ChildProcess>()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      queue.length = 0
      for (const child of running) child.kill(signal)
    })
  }
  const began = performance.now()
  const results = await runEach(queue, running)
  for (const { file, failed, ms } of results) if (failed === 0) times.set(file, ms!)
  times.keep()
  // A log of which only the end was kept still says what failed.
  for (const { report } of results) if (report.length > 0) console.log(report.slice(0, repeated).join('\n'))
  const skipped = skippedOf(results)
  if (skipped) console.log(`Skipped: ${skipped}`)
  const seconds = Math.round((performance.now() - began) / 1000)
  const taken = secondsOfAll()
  console.log(`${results.length} files in ${seconds} s${taken > 0 ? `, ${Math.round(taken)} s of CPU time` : ''}`)
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
