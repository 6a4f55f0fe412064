// The command `sluice init`: writes a first gateway.yaml, after a few questions or by options.
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { names } from '../../config/names.ts'
import { modelsOf, starterFile, starterNames, variablesOf } from '../../config/presets/starter.ts'
import type { StarterChoices } from '../../config/presets/starter.ts'
import { newKeySecret } from '../admin/tenancy/key-secret.ts'
import { suggestion } from '../options/suggest.ts'
import { defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import { valuesOf } from './command/list-option.ts'
import { readBudgets } from './command/rights-options.ts'

/** What the file is made of, in words, as options and answers give it. */
type Words = Readonly<Record<'upstreams' | 'tenant' | 'budget' | 'host' | 'port' | 'admin-port', string>>

const usual: Words = {
  upstreams: 'simulator',
  tenant: 'acme',
  budget: '100/month',
  host: '127.0.0.1',
  port: '8080',
  'admin-port': '9090'
}

const questions: readonly (readonly [keyof Words, string])[] = [
  ['upstreams', `Which upstreams, with commas between? Known are ${starterNames.join(', ')}`],
  ['tenant', 'Who uses it? The name of the first tenant'],
  ['budget', 'What may it spend, in US dollars? 5/day, 100/month, 1000/total, or none'],
  ['port', 'On which port do clients reach it?']
]

export const init = defineCommand({
  name: 'init',
  summary: 'writes a first gateway.yaml and prints the secret of its key, this once',
  options: {
    config: { value: 'FILE', default: 'gateway.yaml', text: 'the file to write, which must not be there yet' },
    upstreams: { value: 'A,B', text: `some of ${starterNames.join(', ')} (default ${usual.upstreams})` },
    tenant: { value: 'NAME', text: `who uses it (default ${usual.tenant})` },
    budget: { value: 'USD/PERIOD', text: `what the tenant may spend, or none (default ${usual.budget})` },
    host: { value: 'ADDRESS', text: `where clients reach it (default ${usual.host})` },
    port: { value: 'N', text: `the port of clients (default ${usual.port})` },
    'admin-port': {
      value: 'N',
      text: `the port of health, metrics and the admin API (default ${usual['admin-port']})`
    },
    yes: { text: 'asks nothing and takes the defaults of what is not given' },
    ...jsonOption
  },
  notes: `
On a terminal it asks when no option says what the file should be. Credentials of upstreams do not come into the file:
it names the environment variables that have them. The secret of the key is on standard output alone.`,
  async run({ config: file, yes, json, ...given }) {
    const target = resolve(file)
    if (existsSync(target)) throw new Error(`${file} is there already: name another file with --config`)
    const silent = yes || Object.values(given).some((value) => value !== undefined)
    const asks = !silent && process.stdin.isTTY && process.stderr.isTTY
    const words = asks ? await ask() : (Object.fromEntries(keys.map((key) => [key, given[key] ?? usual[key]])) as Words)
    const choices = choicesOf(words)
    const { secret, sha256 } = newKeySecret()
    write(target, starterFile({ ...choices, sha256, schema: schemaFor(target) }))
    const variables = variablesOf(choices.upstreams)
    const models = modelsOf(choices.upstreams)
    process.stdout.write(`${json ? JSON.stringify({ file, key: secret, variables, models }) : secret}\n`)
    process.stderr.write(nextSteps(file, choices, variables, models[0]!))
    return exits.ok
  }
})

const keys = Object.keys(usual) as (keyof Words)[]

/** Asks for what has no usual answer for everybody, again until an answer can be used. */
async function ask(): Promise<Words> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  const left = new AbortController()
  terminal.once('close', () => left.abort())
  const words = { ...usual }
  try {
    for (const [key, question] of questions) {
      for (;;) {
        const answer = await terminal.question(`${question} [${usual[key]}]: `, { signal: left.signal })
        words[key] = answer.trim() || usual[key]
        try {
          readers[key](words[key])
          break
        } catch (error) {
          if (!(error instanceof UsageError)) throw error
          process.stderr.write(`${error.message}\n`)
        }
      }
    }
    return words
  } catch (error) {
    if (left.signal.aborted) throw new Error('the questions were not answered: nothing was written')
    throw error
  } finally {
    terminal.close()
  }
}

/** What each option means. They throw a UsageError with its name, its value and what it must be. */
const readers = {
  upstreams: readUpstreams,
  tenant: (text: string) => {
    if (new RegExp(names.pattern, 'u').test(text)) return text
    throw new UsageError(`--tenant is ${JSON.stringify(text)}: it must be ${names.patternErrorMessage}`)
  },
  budget: readBudget,
  host: (text: string) => {
    if (/^[\w.:-]+$/.test(text)) return text
    throw new UsageError(`--host is ${JSON.stringify(text)}: it must be an address or a name of this machine`)
  },
  port: (text: string) => readPort('port', text),
  'admin-port': (text: string) => readPort('admin-port', text)
}

function choicesOf(words: Words): Omit<StarterChoices, 'sha256' | 'schema'> {
  const choices = {
    upstreams: readers.upstreams(words.upstreams),
    tenant: readers.tenant(words.tenant),
    budget: readers.budget(words.budget),
    host: readers.host(words.host),
    port: readers.port(words.port),
    adminPort: readers['admin-port'](words['admin-port'])
  }
  if (choices.port !== choices.adminPort || choices.port === 0) return choices
  throw new UsageError(`--port and --admin-port are both ${choices.port}: they must differ`)
}

function readUpstreams(text: string): string[] {
  const chosen = [...new Set(valuesOf(text).map((name) => name.trim()))]
  for (const name of chosen) {
    if (starterNames.includes(name)) continue
    const near = suggestion(name, starterNames)
    throw new UsageError(`--upstreams has ${JSON.stringify(name)}${near}: known are ${starterNames.join(', ')}`)
  }
  return chosen
}

function readBudget(text: string): { usd: string; per: string } | undefined {
  if (text === 'none') return undefined
  const [budget, second] = readBudgets(valuesOf(text))
  const { usd, per, alerts } = budget!
  if (!second && !alerts && /^\d{1,9}(\.\d{1,9})?$/.test(usd) && /^(day|week|month|total)$/.test(per)) return budget
  throw new UsageError(`--budget is ${JSON.stringify(text)}: it must be like 5/day, 100/month or 1000/total, or none`)
}

function readPort(option: string, text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) < 65536) return Number(text)
  throw new UsageError(`--${option} is ${JSON.stringify(text)}: it must be a whole number from 0 to 65535`)
}

/** The schema of this program for editors, when it is in a folder below the file. */
function schemaFor(target: string): string | undefined {
  const root = join(import.meta.dirname, import.meta.filename.endsWith('.ts') ? '../..' : '../../..')
  const path = relative(dirname(target), join(root, 'config/gateway.schema.json'))
  return path.startsWith('..') || !existsSync(resolve(dirname(target), path)) ? undefined : `./${path}`
}

function write(target: string, text: string): void {
  try {
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, text, { flag: 'wx', flush: true })
  } catch (error) {
    // A full disk leaves a part of it, and a file that is there already is not ours.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') rmSync(target, { force: true })
    throw new Error(`${target} cannot be written: ${(error as Error).message}`)
  }
}

function nextSteps(
  file: string,
  { host, port }: Pick<StarterChoices, 'host' | 'port'>,
  variables: readonly string[],
  model: string
): string {
  const config = file === 'gateway.yaml' ? '' : ` --config ${file}`
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}/v1/chat/completions`
  return `${file} was written. The secret of its key is not shown again. Next, with that secret as KEY:

${[...variables, 'KEY'].map((name) => `export ${name}=…\n`).join('')}sluice check${config}
sluice start${config}
curl ${url} -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
  -d '${JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] })}'
`
}
