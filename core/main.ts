#!/usr/bin/env node
// The command `sluice`.
import { start } from './commands/start.ts'

await start(process.argv.slice(3))
