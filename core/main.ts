#!/usr/bin/env node
// The command `sluice`.
import { run } from './commands/index.ts'

// Who reads the output may leave before its end, as `head` does.
process.stdout.on('error', () => {})
const code = await run(process.argv.slice(2))
process.stdout.write('', () => process.exit(code))
