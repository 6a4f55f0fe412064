// A Lua script that Redis runs as one step.
import { hash } from 'node:crypto'
import type { Asker, Connection } from './asker.ts'
import type { Reply } from './replies.ts'

/** How a script is called, and what it answers. */
export interface ScriptOptions {
  /** Whether its text is sent each time: else a call of it may come after what was asked behind it. Default: no. */
  readonly inOrder?: boolean
  /** Whether something is an answer of it to a call. Default: everything is. */
  readonly answers?: (reply: Reply, call: Call) => boolean
}

/** A script, which Redis knows by its SHA-1 once it has seen it. */
export class Script {
  readonly text: string
  readonly sha: string
  readonly options: ScriptOptions

  constructor(text: string, options: ScriptOptions = {}) {
    this.text = text
    this.sha = hash('sha1', text)
    this.options = options
  }
}

/** A script with what it is to work on. In a cluster all keys are in one hash slot; there is one at least. */
export interface Call {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly string[]
}

/**
 * Runs a script once. A server that does not know it has not begun it, and gets its text. What is no answer of it fails
 * with `PROTOCOL`: nobody knows what else came in the place of an answer.
 */
export function run(connection: Connection, call: Call, asker: Asker): void {
  const { script, keys, args } = call
  const { inOrder = false, answers } = script.options
  const [key] = keys
  const rest = [String(keys.length), ...keys, ...args]
  const checked: Asker = {
    done(reply) {
      if (answers?.(reply, call) ?? true) asker.done(reply)
      else asker.failed(new Error('PROTOCOL what came is no answer of the script'))
    },
    failed(error) {
      if (inOrder || !String((error as Error).message).startsWith('NOSCRIPT')) asker.failed(error)
      else connection.send(key!, ['EVAL', script.text, ...rest], { ...checked, failed: (why) => asker.failed(why) })
    }
  }
  const named = inOrder ? ['EVAL', script.text] : ['EVALSHA', script.sha]
  connection.send(key!, [...named, ...rest], checked)
}
