// Starts crash.ts, for tests that kill it.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Form } from './forms.ts'

const program = join(import.meta.dirname, 'crash.ts')

/** The process, and what it has said so far. */
export interface CrashChild {
  process: ChildProcess
  lines: string[]
  /** Resolves with the first line that begins so; rejects when the process ends before. */
  line(beginning: string): Promise<string>
  kill(): Promise<void>
}

/** Starts crash.ts in a mode with a store of a form; `command`: what stands before it, such as `env`. */
export function startCrash(mode: string, file: string, command: string[] = [], form: Form['name'] = 'log'): CrashChild {
  const [first, ...rest] = [...command, process.execPath, program, mode, file, form]
  const child = spawn(first!, rest, { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines: string[] = []
  const reader = createInterface({ input: child.stdout! })
  reader.on('line', (line) => lines.push(line))
  const ended = once(reader, 'close')
  return {
    process: child,
    lines,
    async line(beginning) {
      for (;;) {
        const found = lines.find((line) => line.startsWith(beginning))
        if (found !== undefined) return found
        if (!(await Promise.race([once(reader, 'line'), ended.then(() => undefined)]))) {
          const last = lines.find((line) => line.startsWith(beginning))
          if (last !== undefined) return last
          throw new Error(`${mode} ended without saying ${beginning}`)
        }
      }
    },
    async kill() {
      child.kill('SIGKILL')
      await ended
    }
  }
}
