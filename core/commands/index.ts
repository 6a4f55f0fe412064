// Finds and runs the command of a command line, and turns errors into exit codes.
import { ConfigError } from '../program/configuration.ts'
import { GatewayError } from '../errors.ts'
import { suggestion } from '../options/suggest.ts'
import { DamagedStore } from '../store/embedded/files/damage.ts'
import { DatabaseFault } from '../store/cluster/database/fault.ts'
import { StoreInUse } from '../store/embedded/files/lock.ts'
import { diagnose } from '../store/embedded/files/troubles.ts'
import { version } from '../telling/version.ts'
import { exits, UsageError } from './command/command.ts'
import type { Command } from './command/command.ts'
import { commandHelp, helpData, programHelp } from './help.ts'
import { Unreachable } from './asking/unreachable.ts'
import { thrownMessage } from '../thrown.ts'

/** Runs a command line; resolves with the exit code. Never rejects: errors are printed on standard error. */
export async function run(args: readonly string[]): Promise<number> {
  let command: Command | undefined
  try {
    const json = args.includes('--json')
    if (args[0] === 'version' || args[0] === '--version') return say(json ? JSON.stringify({ version }) : version)
    const words = leadingWords(args)
    const commands = await commandsFor(words)
    if (args[0] === 'help' || args.includes('--help') || args.includes('-h')) return say(helpOn(words, json, commands))
    command = commandOf(words, commands)
    return await command.run(args.slice(command.name.split(' ').length))
  } catch (error) {
    return explain(error, command)
  }
}

function say(text: string): number {
  process.stdout.write(`${text}\n`)
  return exits.ok
}

/** The words that may name a command: those before the first option, without the word help. */
function leadingWords(args: readonly string[]): readonly string[] {
  const words = args[0] === 'help' ? args.slice(1) : args
  const option = words.findIndex((word) => word.startsWith('-'))
  return option === -1 ? words : words.slice(0, option)
}

/** The commands that the words may mean. A gateway starts without the code of all others. */
async function commandsFor([first]: readonly string[]): Promise<readonly Command[]> {
  return first === 'start' ? [(await import('./start.ts')).start] : (await import('./all.ts')).commands
}

/**
 * Finds the command that the words begin with.
 * @throws UsageError when there is none
 */
function commandOf(words: readonly string[], commands: readonly Command[]): Command {
  const command = commands.find(({ name }) => name === words.slice(0, name.split(' ').length).join(' '))
  if (command) return command
  const [first, second] = words
  const listed = [...new Set(commands.map(({ name }) => name.split(' ')[0]!)), ...asides]
  const group = commands.map(({ name }) => name).filter((name) => name.startsWith(`${first} `))
  if (first === undefined) throw new UsageError(`a command is missing: known are ${listed.join(', ')}`)
  if (group.length === 0) throw new UsageError(`there is no command "${first}"${suggestion(first, listed)}`)
  throw new UsageError(
    second === undefined
      ? `${first} is half a command: known are ${group.join(', ')}`
      : `there is no command "${first} ${second}"${suggestion(`${first} ${second}`, group)}`
  )
}

/** Words that are not commands but are understood as the first word. */
const asides: readonly string[] = ['help', 'version']

/** The help of one command, of all commands that begin with a word, or of the program. */
function helpOn(words: readonly string[], json: boolean, commands: readonly Command[]): string {
  const all = words.length === 0 || asides.includes(words[0]!)
  const group = all ? commands : commands.filter(({ name }) => name.startsWith(`${words.join(' ')} `))
  const chosen = group.length > 0 ? group : [commandOf(words, commands)]
  if (json) return JSON.stringify(helpData(chosen))
  return all ? programHelp(commands) : chosen.map(commandHelp).join('\n\n')
}

function explain(error: unknown, command: Command | undefined): number {
  const complain = (text: string): void => void process.stderr.write(`${text}\n`)
  const name = command ? `sluice ${command.name}` : 'sluice'
  if (error instanceof ConfigError) {
    for (const { place, message } of error.problems) complain(`${place} ${message}`)
    return exits.invalid
  }
  if (error instanceof UsageError) {
    complain(`${name}: ${error.message}\nSee: sluice help${command ? ` ${command.name}` : ''}`)
    return exits.invalid
  }
  // An error thrown on purpose is a plain Error or one of the program's own. Any other error is a bug, so its stack is
  // shown.
  const kind = own.find(({ error: of }) => error instanceof of)
  const forPeople = kind || error instanceof GatewayError || (error instanceof Error && error.constructor === Error)
  const message = thrownMessage(error)
  complain(`${name}: ${forPeople || !(error instanceof Error) ? message : error.stack}`)
  return kind?.code ?? (diagnose(message).ofDisk ? exits.disk : exits.failed)
}

/** Errors of the program that have an exit code of their own. */
const own = [
  { error: StoreInUse, code: exits.inUse },
  { error: DamagedStore, code: exits.damaged },
  { error: DatabaseFault, code: exits.failed },
  { error: Unreachable, code: exits.unreachable }
] as const
