// Declares commands of the program, and reads their arguments.
import { parseArgs } from 'node:util'
import { readAddress } from '../../../config/address.ts'
import type { Address } from '../../../config/address.ts'
import { plugins } from '../../../plugins/index.ts'
import type { Config } from '../../catalogue/settings.ts'
import { readConfig } from '../../program/configuration.ts'
import { suggestion } from '../../options/suggest.ts'
import { valuesOf } from './list-option.ts'

export { exits } from '../../telling/exits.ts'

/**
 * One option. `value` names its value in the help; without it the option is a switch. A `list` has values with commas
 * between them.
 */
export interface Option {
  readonly value?: string
  readonly text: string
  readonly default?: string
  readonly list?: true
}

/** Options by name, without the dashes. */
export type Options = Readonly<Record<string, Option>>

/** The options of a command line: text for those with a value, texts for lists, true or false for switches. */
export type Given<O extends Options> = {
  readonly [K in keyof O]: O[K] extends { value: string }
    ?
        | (O[K] extends { list: true } ? readonly string[] : string)
        | (O[K] extends { default: string } ? never : undefined)
    : boolean
}

type Value = string | boolean | readonly string[] | undefined

/** A command. Its name has one word or two: `start`, `keys create`. */
export interface Command {
  readonly name: string
  /** What it does, without a full stop. */
  readonly summary: string
  /** The names of its arguments, in order; those in brackets may be left out. */
  readonly operands: readonly string[]
  readonly options: Options
  /** Further lines of its help. */
  readonly notes: string
  /**
   * Reads its arguments without running it.
   * @throws UsageError
   */
  check(args: readonly string[]): void
  /**
   * Runs the command; resolves with the exit code.
   * @throws UsageError, ConfigError, or an Error whose message is for people
   */
  run(args: readonly string[]): Promise<number>
}

/** The command line is wrong. The message says what is wrong. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The option `--json`, which every command has. */
export const jsonOption = { json: { text: 'for programs: JSON on standard output' } } as const satisfies Options

/** Declares a command. `run` gets the given options and operands; each command declares {@link jsonOption} too. */
export function defineCommand<const O extends Options>(definition: {
  name: string
  summary: string
  operands?: readonly string[]
  options: O
  notes?: string
  run(options: Given<O>, operands: readonly string[]): Promise<number> | number
}): Command {
  const { operands = [], options, notes = '' } = definition
  const read = (args: readonly string[]): ReturnType<typeof readArguments> => readArguments(args, options, operands)
  return {
    ...definition,
    operands,
    notes,
    check: (args) => void read(args),
    async run(args) {
      const given = read(args)
      return definition.run(given.options as Given<O>, given.operands)
    }
  }
}

/** The option `--config`, of every command that reads the configuration. */
export const configOption = {
  config: { value: 'FILE', default: 'gateway.yaml', text: 'the configuration' }
} as const satisfies Options

/**
 * Reads the configuration that the option `--config` names.
 * @throws ConfigError with every problem
 */
export async function configOf({ config: file }: { config: string }): Promise<Config> {
  return (await readConfig({ file, env: process.env, plugins })).config
}

/**
 * Finds the gateway of the configuration that the option `--config` names, also when the file has problems elsewhere.
 * @throws ConfigError with every problem, when it cannot be told from the file where its gateway is
 */
export async function addressOf({ config: file }: { config: string }): Promise<Address> {
  const address = readAddress(file, process.env)
  return address ?? configOf({ config: file })
}

function readArguments(
  args: readonly string[],
  options: Options,
  operands: readonly string[]
): { options: Record<string, Value>; operands: string[] } {
  const specs = Object.fromEntries(
    Object.entries(options).map(([name, { value }]) => [
      name,
      { type: value === undefined ? 'boolean' : 'string' } as const
    ])
  )
  const { tokens } = parseArgs({ args: [...args], options: specs, strict: false, allowPositionals: true, tokens: true })
  const given: Record<string, Value> = {}
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
    // A value that begins with a dash is more likely the next option.
    if (
      option.value !== undefined &&
      (value === undefined || value === '' || (!token.inlineValue && value.startsWith('-')))
    ) {
      throw new UsageError(`${rawName} needs a value: ${rawName} ${option.value}`)
    }
    given[name] = option.list ? valuesOf(value!) : (value ?? true)
  }
  const needed = operands.filter((name) => !name.startsWith('['))
  if (positionals.length < needed.length) throw new UsageError(`${needed[positionals.length]} is missing`)
  if (positionals.length > operands.length)
    throw new UsageError(`unexpected argument ${JSON.stringify(positionals[operands.length])}`)
  for (const [name, { value, default: otherwise, list }] of Object.entries(options)) {
    const absent = value === undefined ? false : undefined
    given[name] ??= list && otherwise !== undefined ? valuesOf(otherwise) : (otherwise ?? absent)
  }
  return { options: given, operands: positionals }
}
