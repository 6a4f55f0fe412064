// What a command of the program is, and how its arguments are read.
import { parseArgs } from 'node:util'
import { suggestion } from '../options/suggest.ts'

/** What a command exits with; help shows the same list. */
export const exits = { ok: 0, failed: 1, invalid: 2, interrupted: 130 } as const

/** One option. `value` stands for what it takes in the help; without it the option is a switch. */
export interface Option {
  readonly value?: string
  readonly text: string
  readonly default?: string
}

/** Options by name, without their dashes. */
export type Options = Readonly<Record<string, Option>>

/** What was given: text for options with a value, true for switches. */
export type Given<O extends Options> = {
  readonly [K in keyof O]: O[K] extends { default: string }
    ? string
    : O[K] extends { value: string }
      ? string | undefined
      : boolean
}

/** A command by its words: `start`, `keys create`. */
export interface Command {
  readonly name: string
  /** What it does, without a stop. */
  readonly summary: string
  /** Names of the arguments that it needs, in their order. */
  readonly operands: readonly string[]
  readonly options: Options
  /** More for its help, in lines. */
  readonly notes: string
  /** Resolves with the exit code. @throws UsageError, ConfigError, or an Error whose message is for people */
  run(args: readonly string[]): Promise<number>
}

/** The command line is wrong; the message says how. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Declares a command; `run` gets what the options and operands were given. */
export function defineCommand<const O extends Options>(definition: {
  name: string
  summary: string
  operands?: readonly string[]
  options: O
  notes?: string
  run(options: Given<O>, operands: readonly string[]): Promise<number> | number
}): Command {
  const { operands = [], options, notes = '' } = definition
  return {
    ...definition,
    operands,
    notes,
    async run(args) {
      const given = readArguments(args, options, operands)
      return definition.run(given.options as Given<O>, given.operands)
    }
  }
}

/** `--config`, which every command takes that looks at the file. */
export const configOption = {
  config: { value: 'FILE', default: 'gateway.yaml', text: 'the configuration' }
} as const satisfies Options

/** `--json`, of the commands that show something. */
export const jsonOption = { json: { text: 'for programs: JSON on standard output' } } as const satisfies Options

function readArguments(
  args: readonly string[],
  options: Options,
  operands: readonly string[]
): { options: Record<string, string | boolean | undefined>; operands: string[] } {
  const specs = Object.fromEntries(
    Object.entries(options).map(([name, { value }]) => [
      name,
      { type: value === undefined ? 'boolean' : 'string' } as const
    ])
  )
  const { tokens } = parseArgs({ args: [...args], options: specs, strict: false, allowPositionals: true, tokens: true })
  const given: Record<string, string | boolean | undefined> = {}
  const positionals: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const { name, rawName, value } = token
    const option = Object.hasOwn(options, name) && rawName.startsWith('--') ? options[name] : undefined
    if (!option)
      throw new UsageError(
        `unknown option ${rawName}${suggestion(
          rawName,
          Object.keys(options).map((known) => `--${known}`)
        )}`
      )
    if (name in given) throw new UsageError(`${rawName} is there twice: keep one`)
    if (option.value === undefined && value !== undefined) throw new UsageError(`${rawName} takes no value`)
    // What looks like the next option is more likely one than a value.
    if (
      option.value !== undefined &&
      (value === undefined || value === '' || (!token.inlineValue && value.startsWith('-')))
    ) {
      throw new UsageError(`${rawName} needs a value: ${rawName} ${option.value}`)
    }
    given[name] = value ?? true
  }
  if (positionals.length < operands.length) throw new UsageError(`${operands[positionals.length]} is missing`)
  if (positionals.length > operands.length)
    throw new UsageError(`unexpected argument ${JSON.stringify(positionals[operands.length])}`)
  for (const [name, { value, default: otherwise }] of Object.entries(options))
    given[name] ??= otherwise ?? (value === undefined ? false : undefined)
  return { options: given, operands: positionals }
}
