// Reads the TAP output of a test file: how many assertions passed and failed, and the output that is worth showing.

/** A test point: its indentation, verdict and name, without the comment after it. */
const point = /^( *)(not )?ok \d+(?: - (.*?))?(?: # .*)?$/
/** The end of the point of a test that was skipped for a reason. */
const skip = / # SKIP (.+)$/
/** Lines that are not needed when the points are counted. */
const noise = /^ *(1\.\.\d+|# time=|TAP version)/
/** The library's own counts, in the last line but one. */
const summary = /^# \{ total: (\d+)(?:, pass: (\d+))?(?:, fail: (\d+))?.*\}$/

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

/** A test or assertion is over. If it passed, its output is removed. */
function settle(shown: string[], indent: string, name: string, failed: boolean): void {
  const header = shown.lastIndexOf(`${indent}# Subtest: ${name}`)
  if (!failed && header >= 0) shown.length = header
  else if (failed && header >= 0) shown[header] = `${indent}✗ ${name}`
  else if (failed) shown.push(`${indent}✗ ${name}`)
}
