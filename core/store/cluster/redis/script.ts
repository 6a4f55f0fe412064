// A Lua script that Redis runs as one step.
import { hash } from 'node:crypto'
import type { Asker, Connection } from './asker.ts'

/** A script, which Redis knows by its SHA-1 once it has seen it. */
export class Script {
  readonly text: string
  readonly sha: string
  /** Whether its text is sent each time: else a call of it may come after what was asked behind it. */
  readonly inOrder: boolean

  constructor(text: string, { inOrder = false } = {}) {
    this.text = text
    this.sha = hash('sha1', text)
    this.inOrder = inOrder
  }
}

/** A script with what it is to work on. In a cluster all keys are in one hash slot; there is one at least. */
export interface Call {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly string[]
}

/** Runs a script once. A server that does not know it has not begun it, and gets its text. */
export function run(connection: Connection, { script, keys, args }: Call, asker: Asker): void {
  const [key] = keys
  const rest = [String(keys.length), ...keys, ...args]
  if (script.inOrder) return connection.send(key!, ['EVAL', script.text, ...rest], asker)
  connection.send(key!, ['EVALSHA', script.sha, ...rest], {
    done: (reply) => asker.done(reply),
    failed(error) {
      if (!String((error as Error).message).startsWith('NOSCRIPT')) asker.failed(error)
      else connection.send(key!, ['EVAL', script.text, ...rest], asker)
    }
  })
}
