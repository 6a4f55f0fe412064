// Runs the command `sluice` as an operator does: in a process of its own, or several command lines one after another in
// one process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..', '..')

/** The result of a command. */
export interface Ended {
  code: number | null
  out: string
  err: string
}

export interface CommandOptions {
  /** The folder to run in; by default that of the project. */
  cwd?: string
  /** Variables in addition to those of this process. */
  env?: NodeJS.ProcessEnv
}

/** Runs a command line until it ends. */
export function sluice(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  return run([join(root, 'core/main.ts'), ...args], options)
}

/** Runs command lines one after another in one process, which is quicker. Each must end by itself. */
export async function sluiceEach(
  lines: readonly (readonly string[])[],
  options: CommandOptions = {}
): Promise<Ended[]> {
  const { code, out, err } = await run(['--eval', script, JSON.stringify(lines)], options)
  if (code !== 0) throw new Error(`the process ended with ${code}: ${err}`)
  return JSON.parse(out) as Ended[]
}

// It is no module: threads of the store would inherit the option that makes it one, and refuse it.
const script = `
import(${JSON.stringify(join(root, 'core/commands/index.ts'))}).then(async ({ run }) => {
  const ended = []
  const write = process.stdout.write.bind(process.stdout)
  for (const line of JSON.parse(process.argv[1])) {
    const result = { code: null, out: '', err: '' }
    process.stdout.write = (text) => { result.out += text; return true }
    process.stderr.write = (text) => { result.err += text; return true }
    result.code = await run(line)
    ended.push(result)
  }
  write(JSON.stringify(ended))
})
`

async function run(args: readonly string[], { cwd = root, env = {} }: CommandOptions): Promise<Ended> {
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd,
    env: { ...process.env, ...env }
  })
  const ended: Ended = { code: null, out: '', err: '' }
  child.stdout.on('data', (text: Buffer) => (ended.out += text.toString()))
  child.stderr.on('data', (text: Buffer) => (ended.err += text.toString()))
  ;[ended.code] = (await once(child, 'close')) as [number | null]
  return ended
}
