// `npm run bench`: starts upstream and load, runs scenarios, prints their tables and writes them into FIGURES.md.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Child, killAll, pinSelf } from './child.ts'
import type { Rig } from './contest.ts'
import * as b1 from './b1.ts'
import * as c1 from './c1.ts'
import * as calls from './calls.ts'
import * as j1 from './j1.ts'
import * as j4 from './j4.ts'
import * as keys from './keys.ts'
import * as l1 from './l1.ts'
import * as l2 from './l2.ts'
import * as layers from './layers.ts'
import * as m1 from './m1.ts'
import { nginx } from './nginx.ts'
import * as p1 from './p1.ts'
import { hottest } from './profile.ts'
import { environment, markdown, writeFigures } from './report.ts'
import type { Report } from './report.ts'
import * as s1 from './s1.ts'
import * as s4 from './s4.ts'
import * as w1 from './w1.ts'
import * as x1 from './x1.ts'

/** `needs`: a program that must be installed. */
const scenarios: Record<string, { title: string; needs?: string; run(rig: Rig): Promise<Report> }> = {
  j1,
  j4,
  s1,
  s4,
  keys,
  l1,
  l2,
  p1,
  x1,
  w1,
  m1,
  b1,
  c1,
  layers,
  calls
}

const help = `npm run bench -- [${Object.keys(scenarios).join('] [')}] [options]

${Object.values(scenarios)
  .map(({ title }) => `  ${title}`)
  .join('\n')}

  --quick         one short round each; FIGURES.md stays as it is
  --rounds N      rounds (3); every figure is their median
  --seconds N     length of one measured window (4)
  --against DIR   also measure another checkout of Sluice, in the same rounds; \`npm ci\` was run there, and FIGURES.md stays
                  as it is; not with l1, l2, p1, c1; may be given again
  --floor         also measure a relay of our own HTTP and nothing else, in the same rounds; FIGURES.md stays as it is
  --no-write      leave bench/FIGURES.md as it is
  --profile       also say where Sluice spent its time; costs some, so FIGURES.md stays as it is
`

/** Exit codes: 0 for success, 1 when an answer was wrong or missing, 2 for wrong usage. */
async function main(): Promise<number> {
  const { values, positionals } = parse()
  if (values.help) {
    process.stdout.write(help)
    return 0
  }
  const lacks = (name: string): string | undefined => missingProgram(scenarios[name]?.needs)
  const names =
    positionals.length > 0 ? positionals : Object.keys(scenarios).filter((name) => lacks(name) === undefined)
  const unknown = names.find((name) => !scenarios[name])
  if (unknown !== undefined) throw new UsageError(`there is no scenario "${unknown}"`)
  const lacking = names.find((name) => lacks(name) !== undefined)
  if (lacking !== undefined) throw new UsageError(`${lacking} needs ${lacks(lacking)}, which is not installed`)
  const missing = values.against.find((checkout) => !existsSync(join(checkout, 'bench/gateway.ts')))
  if (missing !== undefined) throw new UsageError(`--against ${missing}: there is no checkout of Sluice`)
  if (process.platform !== 'linux') throw new UsageError('CPU and memory are read from /proc: run this on Linux')
  const rounds = values.quick ? 1 : positive('--rounds', values.rounds)
  const seconds = values.quick ? 1 : positive('--seconds', values.seconds)
  const progress = (line: string) => process.stderr.write(`${line}\n`)
  if (!nginx) progress('nginx is not installed (Debian: apt install nginx): the bare relay is the yardstick')

  pinSelf()
  const cache = new URL('../.cache/', import.meta.url).pathname
  mkdirSync(cache, { recursive: true })
  const directory = mkdtempSync(join(cache, 'bench-'))
  const tidy = (): void => {
    killAll()
    rmSync(directory, { recursive: true, force: true })
  }
  process.once('exit', tidy)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      tidy()
      process.kill(process.pid, signal)
    })
  }

  const upstream = await Child.start<{ port: number }>('upstream.ts', [], 'rest')
  const load = await Child.start<object>('load.ts', [], 'rest')
  const rig: Rig = {
    upstream: { child: upstream.child, port: upstream.ready.port },
    load: load.child,
    directory,
    rounds,
    seconds,
    progress,
    warm: values.quick ? 0.4 : 1,
    quick: values.quick,
    floor: values.floor,
    against: values.against,
    ceilings: new Map(),
    profile: undefined
  }
  const where = environment(rounds, seconds)
  const write = !(values.quick || values['no-write'] || values.profile || values.floor || values.against.length > 0)
  let code = 0
  for (const name of names) {
    const profile = values.profile ? join(cache, 'profiles', name) : undefined
    if (profile) rmSync(profile, { recursive: true, force: true })
    const report = await scenarios[name]!.run({ ...rig, profile })
    process.stdout.write(`${markdown(report)}\n\n`)
    if (profile) process.stdout.write(`${hottest(profile)}\nThe profiles are in ${profile}.\n\n`)
    if (report.problems.length > 0) code = 1
    else if (write) writeFigures(report, where)
  }
  process.stdout.write(`${where}\n`)
  await Promise.all([upstream.child.stop(), load.child.stop()])
  return code
}

/** The program when it is not installed. */
function missingProgram(program: string | undefined): string | undefined {
  return program !== undefined && spawnSync(program, ['--version']).error ? program : undefined
}

class UsageError extends Error {}

function parse() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        quick: { type: 'boolean', default: false },
        rounds: { type: 'string', default: '3' },
        seconds: { type: 'string', default: '4' },
        against: { type: 'string', multiple: true, default: [] as string[] },
        floor: { type: 'boolean', default: false },
        'no-write': { type: 'boolean', default: false },
        profile: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false }
      }
    })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

function positive(option: string, value: string): number {
  const number = Number(value)
  if (!(number > 0)) throw new UsageError(`${option} ${value}: give a number above 0`)
  return number
}

try {
  process.exitCode = await main()
} catch (error) {
  const { message, stack } = error as Error
  process.stderr.write(error instanceof UsageError ? `${message}\n\n${help}` : `${stack}\n`)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
// The process can only end after its children.
killAll()
