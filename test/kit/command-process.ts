// Runs the command lines that its parent sends one after another, and sends back what each wrote and ended with. It is
// the process of `sluice` in command.ts.
import { run } from '../../core/commands/index.ts'
import type { CommandLine, Ended } from './command.ts'

process.on('message', async ({ args, cwd, env }: CommandLine) => {
  process.chdir(cwd)
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name]
  Object.assign(process.env, env)
  const ended: Ended = { code: null, out: '', err: '' }
  const [write, complain] = [process.stdout.write, process.stderr.write]
  process.stdout.write = (text) => ((ended.out += text.toString()), true)
  process.stderr.write = (text) => ((ended.err += text.toString()), true)
  ended.code = await run(args)
  process.stdout.write = write
  process.stderr.write = complain
  process.send!(ended)
})
process.on('disconnect', () => process.exit())
