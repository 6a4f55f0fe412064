// Removes keys, and names of the operator's accounts, from what upstreams say. Every pattern can begin at few places
// only, so a text is searched in one pass for each.

/** Replaces what was removed. */
export const mark = '[redacted]'

/** Texts that may be keys or ids, also with their middle in asterisks. */
const runs = /[-\w*]{8,}/g
/** How keys and ids begin. */
const beginnings = /(?<!\w)(?:sk-|ek_|key|AIza|AKIA|ASIA|org-|proj_|user-)/g
/** What has to follow each beginning. Those that also begin words, such as `key`, need a digit in the rest. */
const vendors: Readonly<Record<string, { least: number; digit: boolean; plain: boolean }>> = {
  'sk-': { least: 8, digit: false, plain: false },
  ek_: { least: 8, digit: false, plain: false },
  key: { least: 12, digit: true, plain: false },
  AIza: { least: 12, digit: true, plain: false },
  AKIA: { least: 12, digit: true, plain: false },
  ASIA: { least: 12, digit: true, plain: true },
  'org-': { least: 12, digit: false, plain: true },
  proj_: { least: 12, digit: false, plain: true },
  'user-': { least: 16, digit: true, plain: true }
}
const plain = /^[A-Za-z0-9]*/

const others: readonly RegExp[] = [
  /\bBearer\s+[-\w.~+/*]{8,}=*/g,
  // Amazon's resource names, and account numbers.
  /\barn:[\w-]*:[\w-]*:[\w-]*:[^\s"'`<>,;)\]}]*/gi,
  /\baccount(?: id| number)?:? \d{12}\b/gi,
  // Google's projects and service accounts.
  /(?<![\w.+-])[\w.+-]+@[\w-]+\.iam\.gserviceaccount\.com/gi,
  /\bprojects\/[\w.:~-]+/gi,
  /\bproject(?:[_ ](?:number|id))?[:=] ?["'`]?[\w-]+/gi,
  /\bproject (?:number |id )?["'`]?(?=[a-z-]*\d)[\w-]{6,}/gi,
  /\bresource project [\w-]+/gi,
  // Azure's resources: their hosts and their paths.
  /(?<![\w.-])[\w-]+(?:\.[\w-]+)+\.(?:azure\.(?:com|us|cn)|windows\.net|azure-api\.net)\b/gi,
  /(?<![\w.-])[\w-]+\.azure-api\.net\b/gi,
  /\bsubscriptions\/[\w-]{8,}[\w./-]*/gi
]

/** The text with a mark in place of each. */
export function withoutIdentities(text: string): string {
  return others.reduce((clean, pattern) => clean.replace(pattern, mark), text.replace(runs, withoutKey))
}

function withoutKey(run: string): string {
  let lastDigit = run.length - 1
  while (lastDigit >= 0 && !isDigit(run.charCodeAt(lastDigit))) lastDigit--
  for (const { 0: beginning, index } of run.matchAll(beginnings)) {
    const { least, digit, plain: isPlain } = vendors[beginning]!
    const from = index + beginning.length
    if (run.length - from < least || (digit && lastDigit < from)) continue
    if (!isPlain || plain.exec(run.slice(from, from + least))![0].length === least) return run.slice(0, index) + mark
  }
  return run
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}
