// `npm run mutants -- [area…] [--minutes N] [--sample N] [--seed TEXT] [--jobs N] [--again] [--tests GLOB]`: plants
// faults in modules, one at a time, and counts those that the tests notice. Only tests that run the changed code are
// tried. It continues where it stopped; another seed is another sample. With `--again` it repeats the faults that no
// test noticed, and with `--tests` it repeats them alone, and asks these tests only. It writes the figures of all
// samples into test/README.md.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { API } from 'typescript/unstable/sync'
import { Covered } from './covered.ts'
import { areas } from './mutant-areas.ts'
import type { Fault } from './mutant.ts'
import { changesOf } from './mutators.ts'
import type { Change } from './mutators.ts'

const root = join(import.meta.dirname, '..')
/** The file with the results of an area. */
const ledgerOf = (area: string): string => join(root, `.cache/mutants-${area}.json`)
const readme = join(root, 'test/README.md')

/** A test of an area that passes without a fault. */
interface Test {
  file: string
  /** Milliseconds that it takes. */
  took: number
  covered: Covered
  /** How many faults of each module it has noticed. */
  noticed: Map<string, number>
}

/** How long a test may take when it has not been run before. */
const patienceMs = 240_000

interface Mutant {
  area: string
  file: string
  change: Change
  /** A digest of module, change and area: a result is valid as long as none of them changes. */
  id: string
  /** By which the faults of an area are sorted. */
  turn: string
}

/** Results by id of the fault: the test that noticed it, or null. */
type Known = Record<string, { noticed: string | null; place: string }>

const known = (area: string): Known => read(ledgerOf(area)) ?? {}

/** The contents of a file of JSON; undefined when it is not there. */
function read<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T
  } catch {
    return undefined
  }
}

/** The tests that pass without a fault, by file. They are run at the beginning to find that out. */
const tests = new Map<string, Test>()
/** What the runs without a fault found, for the next time. */
const measures = join(root, '.cache/mutants-tests.json')

/** A run without a fault: valid as long as neither the test nor a module where faults are planted changes. */
interface Measure {
  id: string
  took: number
  modules: ReturnType<Covered['toJSON']>
}

async function tryTests(globs: readonly (string | readonly string[])[]): Promise<void> {
  const files = Object.values(areas)
    .flatMap((area) => globSync(area.files, { cwd: root }))
    .sort()
  const modules = new Set(files.map(urlOf))
  const known = read<Record<string, Measure>>(measures) ?? {}
  const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')
  for (const file of new Set(globs.flatMap((glob) => globSync(glob, { cwd: root })))) {
    const id = digest(JSON.stringify([file, ...files].map(textOf)))
    const measure = known[file]?.id === id ? known[file] : await measured(file, id, modules)
    if (!measure) console.log(`${file} fails without any fault, and is left out`)
    else {
      known[file] = measure
      tests.set(file, { file, took: measure.took, covered: new Covered(measure.modules), noticed: new Map() })
    }
  }
  mkdirSync(join(root, '.cache'), { recursive: true })
  writeFileSync(measures, JSON.stringify(known))
}

/** Runs a test without a fault; undefined when it fails. */
async function measured(file: string, id: string, modules: ReadonlySet<string>): Promise<Measure | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-covered-'))
  const began = performance.now()
  const failed = await fails(file, patienceMs, { NODE_V8_COVERAGE: folder })
  const took = performance.now() - began
  const covered = Covered.in(folder, modules)
  rmSync(folder, { recursive: true, force: true })
  return failed ? undefined : { id, took, modules: covered.toJSON() }
}

const urlOf = (file: string): string => pathToFileURL(join(root, file)).href
const digest = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16)

/** All faults of an area, in an arbitrary order that stays the same for a seed. */
function mutantsOf(area: string, api: API, seed: string): Mutant[] {
  const snapshot = api.updateSnapshot({ openProjects: [join(root, 'tsconfig.json')] })
  const project = snapshot.getProjects()[0]!
  return globSync(areas[area]!.files, { cwd: root })
    .flatMap((file) => {
      const source = project.program.getSourceFile(join(root, file))!
      return changesOf(source).map((change) => {
        const id = digest(JSON.stringify([file, source.text, change, area]))
        return { area, file, change, id, turn: digest(seed + id) }
      })
    })
    .toSorted((one, other) => (one.turn < other.turn ? -1 : 1))
}

/** Runs one file of tests; true when it fails or does not end within so many milliseconds. */
function fails(file: string, patience: number, more: NodeJS.ProcessEnv, fault?: Fault): Promise<boolean> {
  const options = ['resolve.ts', ...(fault ? ['mutant.ts'] : [])].map(
    (name) => `--import=${join(import.meta.dirname, name)}`
  )
  // Two runs of the same test at one time must not remove each other's files.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-mutants-'))
  const env = {
    ...process.env,
    TAP_CWD: folder,
    NODE_OPTIONS: options.join(' '),
    TAP_BAIL: '1',
    TAP_TIMEOUT: '240',
    SLUICE_FAULT: JSON.stringify(fault),
    ...more
  }
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(root, file)], { cwd: root, stdio: 'ignore', env })
    const timer = setTimeout(() => child.kill('SIGKILL'), patience)
    child.once('exit', (code) => {
      clearTimeout(timer)
      rmSync(folder, { recursive: true, force: true })
      resolve(code !== 0)
    })
  })
}

/**
 * The first test that notices the fault; null when none does. The first to be run are those that are quick and have
 * noticed many faults of the module.
 */
async function noticedBy({ file, change }: Mutant, tried: string | readonly string[]): Promise<string | null> {
  const fault = { url: urlOf(file), ...change }
  const files = new Set(globSync(tried, { cwd: root }))
  const cost = ({ took, noticed }: Test): number => took / (1 + (noticed.get(file) ?? 0))
  const able = [...tests.values()]
    // An operator belongs to its right side, which may not have been run where the left side decided.
    .filter(({ covered }) => covered.has(fault.url, change.from) || covered.has(fault.url, change.from - 1))
    .filter((test) => files.has(test.file))
    .toSorted((one, other) => cost(one) - cost(other))
  for (const test of able) {
    // A test that takes that much longer hangs because of the fault, which counts as noticed.
    if (!(await fails(test.file, 20_000 + 10 * test.took, {}, fault))) continue
    test.noticed.set(file, (test.noticed.get(file) ?? 0) + 1)
    return test.file
  }
  return null
}

function place({ file, change }: Mutant): string {
  const text = readFileSync(join(root, file), 'utf8')
  const line = text.slice(0, change.from).split('\n').length
  return `${file}:${line} ${text.slice(change.from, change.to).replaceAll(/\s+/g, ' ').slice(0, 60)} → ${change.text}`
}

/**
 * The figures by area, for the faults that were tried in the modules as they are now. The line of an area of which
 * nothing was tried here stays as it is.
 */
function tell(all: readonly Mutant[], done: ReadonlyMap<string, Known>): string {
  const before = readFileSync(readme, 'utf8').split('\n')
  const lines = Object.keys(areas).flatMap((area) => {
    const own = all.filter((mutant) => mutant.area === area)
    const known = done.get(area)!
    const tried = own.filter(({ id }) => known[id])
    if (tried.length === 0) return before.filter((line) => line.startsWith(`| ${area} | `))
    const noticed = tried.filter(({ id }) => known[id]!.noticed !== null).length
    return [
      `| ${area} | ${own.length} | ${tried.length} | ${noticed} | ${((noticed / tried.length) * 100).toFixed(1)} % |`
    ]
  })
  const day = new Date().toISOString().slice(0, 10)
  return ['| Area | Faults | Planted | Noticed | |', '|---|---|---|---|---|', ...lines, '', `As of ${day}.`].join('\n')
}

function writeFigures(table: string): void {
  const text = readFileSync(readme, 'utf8')
  writeFileSync(readme, text.replace(/(<!-- mutants -->\n)[^]*?(<!-- \/mutants -->)/, `$1\n${table}\n\n$2`))
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      minutes: { type: 'string', default: '30' },
      sample: { type: 'string', default: '150' },
      seed: { type: 'string', default: '' },
      again: { type: 'boolean', default: false },
      tests: { type: 'string' },
      jobs: { type: 'string', default: String(availableParallelism()) }
    }
  })
  const wrong = positionals.find((name) => !(name in areas))
  if (wrong !== undefined) throw new Error(`there is no area ${wrong}: known are ${Object.keys(areas).join(', ')}`)
  const wanted = positionals.length > 0 ? positionals : Object.keys(areas)
  const asked = values.tests === undefined ? wanted.map((area) => areas[area]!.tests) : [values.tests]
  await tryTests(asked)
  const api = new API({ cwd: root })
  const all = Object.keys(areas).flatMap((area) => mutantsOf(area, api, values.seed))
  api.close()
  const done = new Map(Object.keys(areas).map((area) => [area, known(area)]))
  const until = performance.now() + Number(values.minutes) * 60_000
  const samples = wanted.map((area) => all.filter((one) => one.area === area).slice(0, Number(values.sample)))
  // The areas take turns, so that none waits for all of another.
  const sampled = Array.from({ length: Number(values.sample) }, (_, at) =>
    samples.flatMap((own) => own[at] ?? [])
  ).flat()
  const queue = sampled.filter(({ area, id }) => {
    const tried = done.get(area)![id]
    return tried ? (values.again || values.tests !== undefined) && tried.noticed === null : values.tests === undefined
  })
  mkdirSync(join(root, '.cache'), { recursive: true })
  const turns = async (): Promise<void> => {
    for (let next = queue.shift(); next && performance.now() < until; next = queue.shift()) {
      const noticed = await noticedBy(next, values.tests ?? areas[next.area]!.tests)
      const own = done.get(next.area)!
      own[next.id] = { noticed, place: place(next) }
      writeFileSync(ledgerOf(next.area), JSON.stringify(own, undefined, 1))
      if (noticed === null) console.log(`not noticed: ${place(next)}`)
    }
  }
  await Promise.all(Array.from({ length: Number(values.jobs) }, turns))
  const table = tell(all, done)
  writeFigures(table)
  console.log(`${table}\n${queue.length} of this sample are left`)
  return 0
}

process.exitCode = await main()
