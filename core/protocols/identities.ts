// What looks like somebody's key, or says whose account it is: taken out of whatever an upstream says.
// Each pattern begins where nothing before it could have begun, so that a text is gone over once for each.

/** Stands where something was taken out. */
export const mark = '[redacted]'

/** Runs that keys and ids are, also with their middle in asterisks. */
const runs = /[-\w*]{8,}/g
/** What they begin with. */
const beginnings = /(?<!\w)(?:sk-|ek_|key|AIza|AKIA|org-|proj_|user-)/g
/** What has to follow; `key` and others are words as well, and so have a digit somewhere behind them. */
const vendors: Readonly<Record<string, { least: number; digit: boolean; plain: boolean }>> = {
  'sk-': { least: 8, digit: false, plain: false },
  ek_: { least: 8, digit: false, plain: false },
  key: { least: 12, digit: true, plain: false },
  AIza: { least: 12, digit: true, plain: false },
  AKIA: { least: 12, digit: true, plain: false },
  'org-': { least: 12, digit: false, plain: true },
  proj_: { least: 12, digit: false, plain: true },
  'user-': { least: 16, digit: true, plain: true }
}
const plain = /^[A-Za-z0-9]*/

const others: readonly RegExp[] = [
  /\bBearer\s+[-\w.~+/*]{8,}=*/g,
  // Amazon's names of resources, and numbers of accounts.
  /\barn:[\w-]*:[\w-]*:[\w-]*:[^\s"'`<>,;)\]}]*/gi,
  /\baccount(?: id| number)?:? \d{12}\b/gi,
  // Google's projects, and those who act for them.
  /(?<![\w.+-])[\w.+-]+@[\w-]+\.iam\.gserviceaccount\.com/gi,
  /\bprojects\/[\w.:~-]+/gi,
  /\bproject(?:[_ ](?:number|id))?[:=] ?["'`]?[\w-]+/gi,
  /\bproject (?:number |id )?["'`]?(?=[a-z-]*\d)[\w-]{6,}/gi,
  /\bresource project [\w-]+/gi,
  // Azure's resources: their hosts, and their places.
  /(?<![\w.-])[\w-]+(?:\.[\w-]+)+\.(?:azure\.(?:com|us|cn)|windows\.net|azure-api\.net)\b/gi,
  /(?<![\w.-])[\w-]+\.azure-api\.net\b/gi,
  /\bsubscriptions\/[\w-]{8,}[\w./-]*/gi
]

/** The text with a mark in the place of each. */
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
