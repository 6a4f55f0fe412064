// The command `sluice`.
import { fall, leave } from './commands/farewell.ts'
import { run } from './commands/index.ts'

process.on('uncaughtException', fall)
// Who reads the output may leave before its end, as `head` does.
process.stdout.on('error', () => {})
const code = await run(process.argv.slice(2))
// Whoever reads slowly gets everything all the same.
process.stdout.write('', () => leave(code))
