// Reads what a test file printed in TAP: how many assertions passed and failed, and what is worth showing of it.

/** A test point: its depth, verdict and name, without what follows in a comment. */
const point = /^( *)(not )?ok \d+(?: - (.*?))?(?: # .*)?$/
/** Lines that say nothing once points are counted. */
const noise = /^ *(1\.\.\d+|# time=|TAP version)/
/** The library's own count, its last line but one. */
const summary = /^# \{ total: (\d+)(?:, pass: (\d+))?(?:, fail: (\d+))?.*\}$/

/** What a file came to. */
export interface Told {
  passed: number
  failed: number
  /** Everything but what passed. */
  output: string
}

/**
 * The lines of a whole file. One that broke off before its summary has counted nothing, and shows all that was left of
 * it.
 */
export function tell(lines: readonly string[]): Told {
  const told: Told = { passed: 0, failed: 0, output: '' }
  const shown: string[] = []
  for (const line of lines) {
    const [, , pass = '0', fail = '0'] = summary.exec(line) ?? []
    const [whole, indent, not, name = ''] = point.exec(line) ?? []
    if (summary.test(line)) Object.assign(told, { passed: Number(pass), failed: Number(fail) })
    else if (whole === undefined) {
      if (/\S/.test(line) && !noise.test(line)) shown.push(line)
    } else settle(shown, indent!, name, not !== undefined)
  }
  told.output = shown.join('\n')
  return told
}

/** A test or assertion is over: what passed leaves no trace. */
function settle(shown: string[], indent: string, name: string, failed: boolean): void {
  const header = shown.lastIndexOf(`${indent}# Subtest: ${name}`)
  if (!failed && header >= 0) shown.length = header
  else if (failed && header >= 0) shown[header] = `${indent}✗ ${name}`
  else if (failed) shown.push(`${indent}✗ ${name}`)
}
