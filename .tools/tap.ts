// Reads the TAP output of test files: how many assertions passed and failed, and the output that is worth showing.
import type { Came } from './together.ts'

/** A test point: its indentation, verdict and name, without the comment after it. */
const point = /^( *)(not )?ok \d+(?: - (.*?))?(?: # .*)?$/
/** The end of the point of a test that was skipped for a reason. */
const skip = / # SKIP (.+)$/
/** Lines that are not needed when the points are counted. */
const noise = /^ *(1\.\.\d+|# time=|TAP version)/
/** The library's own counts, in the last line but one. */
const summary = /^# \{ total: (\d+)(?:, pass: (\d+))?(?:, fail: (\d+))?.*\}$/
/** The begin and the end of a file that shares its process, and what it came to (together.ts). */
const [begin, end, came] = [/^# Subtest: (.*)$/, /^(?:not )?ok \d+ - (.*?) # time=([\d.]+)ms/, /^# (\{"file":.*\})$/]

/** The result of a file. */
export interface Told {
  passed: number
  failed: number
  /** The reason of each test that was skipped. */
  skipped: string[]
  /** The output, except for what passed. */
  output: string
}

/**
 * Reads the output of a whole file. If it broke off before its summary, nothing is counted, and everything is shown
 * that did not pass.
 */
export function tell(lines: readonly string[]): Told {
  const told: Told = { passed: 0, failed: 0, skipped: [], output: '' }
  const shown: string[] = []
  for (const line of lines) {
    const [, , pass = '0', fail = '0'] = summary.exec(line) ?? []
    const [whole, indent, not, name = ''] = point.exec(line) ?? []
    if (summary.test(line)) Object.assign(told, { passed: Number(pass), failed: Number(fail) })
    else if (whole === undefined) {
      if (/\S/.test(line) && !noise.test(line)) shown.push(line)
    } else {
      settle(shown, indent!, name, not !== undefined)
      const [, reason] = skip.exec(line) ?? []
      if (reason !== undefined) told.skipped.push(reason)
    }
  }
  told.output = shown.join('\n')
  return told
}

/** The result of one of several files that shared a process. */
export interface ToldOfMany extends Told {
  file: string
  /** Undefined when it did not get to its end. */
  ms: number | undefined
  /** Seconds of the process. */
  cpu: number
  /** What it left open, by its kind. */
  left: readonly string[]
}

/**
 * Reads the output of files that shared a process. What belongs to none of them, such as an assertion about the process
 * itself, counts for the first that did not get to its end, or for the last.
 */
export function tellEach(files: readonly string[], lines: readonly string[]): ToldOfMany[] {
  const parts = new Map(files.map((file) => [file, [] as string[]]))
  const ends = new Map<string, number>()
  const results = new Map<string, Came>()
  const beside: string[] = []
  let inside: string[] | undefined
  let over = false
  for (const line of lines) {
    const [, ended = '', ms] = end.exec(line) ?? []
    const [, result] = came.exec(line) ?? []
    // Where a file that failed was begun says nothing about it.
    over &&= line.startsWith('  ')
    if (parts.has(ended)) {
      ends.set(ended, Number(ms))
      inside = undefined
      over = true
    } else if (result !== undefined) {
      const one = JSON.parse(result) as Came
      results.set(one.file, one)
    } else if (inside) inside.push(line.replace(/^ {4}/, ''))
    else if (!over) {
      inside = parts.get(begin.exec(line)?.[1] ?? '')
      if (!inside && !summary.test(line)) beside.push(line)
    }
  }
  const last = files.find((file) => !ends.has(file)) ?? files.at(-1)!
  parts.get(last)!.push(...beside)
  const points = (verdict: string): number => beside.filter((line) => line.startsWith(`${verdict} `)).length
  return files.map((file) => {
    const { passed = 0, failed = 0, cpu = 0, left = [] } = results.get(file) ?? {}
    const more = file === last ? { passed: points('ok'), failed: points('not ok') } : { passed: 0, failed: 0 }
    return {
      ...tell(parts.get(file)!),
      file,
      ms: ends.get(file),
      passed: passed + more.passed,
      failed: failed + more.failed,
      cpu,
      left
    }
  })
}

/** A test or assertion is over. If it passed, its output is removed. */
function settle(shown: string[], indent: string, name: string, failed: boolean): void {
  const header = shown.lastIndexOf(`${indent}# Subtest: ${name}`)
  if (!failed && header >= 0) shown.length = header
  else if (failed && header >= 0) shown[header] = `${indent}✗ ${name}`
  else if (failed) shown.push(`${indent}✗ ${name}`)
}
