// Gateways as processes of their own, one after another on one store, to be killed.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { More } from './rig.ts'

/** A process that serves. */
export interface Running {
  url: string
  adminUrl: string
  /** Milliseconds from its start until it said that it is ready. */
  tookMs: number
  /** It has not ended. */
  readonly alive: boolean
  readonly pid: number
  /** What it has written so far. */
  readonly output: string
  /** Ends it and waits until it is gone. */
  end(signal: NodeJS.Signals): Promise<void>
}

/** How to start one. */
export interface Launch {
  /** What runs, with its arguments but the last, the configuration. Default: the gateway as it is shipped. */
  script?: readonly string[]
  /** Beside the environment of this process. */
  env?: Readonly<Record<string, string>>
}

/** A gateway of so many workers; see there. */
export function withWorkers(workers: number): Launch {
  return { script: [join(import.meta.dirname, '../core/workers/victim.ts'), String(workers)] }
}

/**
 * Starts a gateway on a configuration, which is written into the folder.
 * @throws Error when it ends before it is ready
 */
export async function launch(
  t: Pick<Test, 'teardown'>,
  folder: string,
  config: More,
  { script = ['core/main.ts', 'start', '--config'], env = {} }: Launch = {}
): Promise<Running> {
  const file = join(folder, 'gateway.yaml')
  writeFileSync(file, JSON.stringify(config))
  const startedAt = performance.now()
  const child = spawn(process.execPath, [...script, file], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env }
  })
  const exited = once(child, 'exit')
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  const addresses = await new Promise<string[]>((resolve, reject) => {
    const take = (text: Buffer): void => {
      output += text.toString()
      const found = /^.*\bready\b.*https?:\/\/.*\n/m.exec(output)?.[0].match(/https?:\/\/[\w.:[\]-]+/g)
      if (found) resolve(found)
    }
    child.stdout.on('data', take)
    child.stderr.on('data', take)
    void exited.then(() => reject(new Error(`the gateway did not start: ${output}`)))
  })
  return {
    url: addresses[0]!,
    adminUrl: addresses[1]!,
    tookMs: performance.now() - startedAt,
    get alive() {
      return child.exitCode === null && child.signalCode === null
    },
    pid: child.pid!,
    get output() {
      return output
    },
    async end(signal) {
      child.kill(signal)
      await exited
    }
  }
}
