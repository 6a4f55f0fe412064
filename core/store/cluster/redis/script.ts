// A Lua script that Redis runs as one step.
import { hash } from 'node:crypto'
import type { Connection, Reply } from './connection.ts'

/** A script, which Redis knows by its SHA-1 once it has seen it. */
export class Script {
  readonly text: string
  readonly sha: string

  constructor(text: string) {
    this.text = text
    this.sha = hash('sha1', text)
  }
}

/** A script with what it is to work on. In a cluster all keys are in one hash slot; there is one at least. */
export interface Call {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly string[]
}

/** Runs a script once. A server that does not know it has not begun it, and gets its text. */
export function run(connection: Connection, { script, keys, args }: Call): Promise<Reply> {
  const rest = [String(keys.length), ...keys, ...args]
  return connection.send(keys[0]!, ['EVALSHA', script.sha, ...rest]).catch((error: unknown) => {
    if (!String((error as Error).message).startsWith('NOSCRIPT')) throw error
    return connection.send(keys[0]!, ['EVAL', script.text, ...rest])
  })
}
