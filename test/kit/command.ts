// Runs the command `sluice` as an operator does: in a process of its own, or in one that has the program loaded and
// runs the command lines of a test file one after another.
import { fork, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..', '..')

/** The result of a command. */
export interface Ended {
  code: number | null
  out: string
  err: string
}

/** A command line for the process that has the program loaded. */
export interface CommandLine {
  args: readonly string[]
  cwd: string
  env: NodeJS.ProcessEnv
}

export interface CommandOptions {
  /** The folder to run in; by default that of the project. */
  cwd?: string
  /** Variables in addition to those of this process. */
  env?: NodeJS.ProcessEnv
  /**
   * In a process of its own, which costs 0.7 s of CPU time: to show how the process itself begins and ends, and with
   * variables that are read before the program.
   */
  alone?: boolean
}

/** Runs a command line until it ends. Without `alone` it must end by itself, and those asked for earlier end first. */
export function sluice(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  const { cwd = root, env = {}, alone = false } = options
  const line: CommandLine = { args, cwd, env: { ...process.env, ...env } }
  if (alone) return inOwnProcess(line)
  const ending = last.then(() => inLoaded(line))
  last = ending.catch(() => {})
  return ending
}

/** Runs command lines one after another. */
export async function sluiceEach(
  lines: readonly (readonly string[])[],
  options: CommandOptions = {}
): Promise<Ended[]> {
  return Promise.all(lines.map((line) => sluice(line, options)))
}

async function inOwnProcess({ args, cwd, env }: CommandLine): Promise<Ended> {
  const child = spawn(process.execPath, [join(root, 'core/main.ts'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd,
    env
  })
  const ended: Ended = { code: null, out: '', err: '' }
  child.stdout.on('data', (text: Buffer) => (ended.out += text.toString()))
  child.stderr.on('data', (text: Buffer) => (ended.err += text.toString()))
  ;[ended.code] = (await once(child, 'close')) as [number | null]
  return ended
}

/** The process with the program loaded, from the first command on. It ends with this process. */
let loaded: ChildProcess | undefined
/** Settles when the last command that was asked for has ended. */
let last: Promise<unknown> = Promise.resolve()

async function inLoaded(line: CommandLine): Promise<Ended> {
  loaded ??= fork(join(import.meta.dirname, 'command-process.ts'), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const child = loaded
  // An idle process keeps no test file from ending.
  child.ref()
  child.channel!.ref()
  child.send(line)
  const [ended] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code, signal]) => {
      throw new Error(`the process of the command ended with ${code ?? signal}: sluice ${line.args.join(' ')}`)
    })
  ])) as [Ended]
  child.unref()
  child.channel!.unref()
  return ended
}
