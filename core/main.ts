// Runs the command `sluice`.
import { fall, leave } from './commands/command/farewell.ts'
import { run } from './commands/index.ts'

process.on('uncaughtException', fall)
// The reader of the output may leave before its end, as `head` does.
process.stdout.on('error', () => {})
const code = await run(process.argv.slice(2))
// The program ends only after a slow reader has got all output.
process.stdout.write('', () => leave(code))
