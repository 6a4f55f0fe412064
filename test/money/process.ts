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
  /** Ends it and waits until it is gone. */
  end(signal: NodeJS.Signals): Promise<void>
}

/** Starts `script` on a configuration, which is written into the folder. */
export async function launch(t: Test, folder: string, config: More, script: readonly string[] = ['core/main.ts', 'start', '--config']): Promise<Running> {
  const file = join(folder, 'gateway.yaml')
  writeFileSync(file, JSON.stringify(config))
  const startedAt = performance.now()
  const child = spawn(process.execPath, [...script, file], { stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = once(child, 'exit')
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  const addresses = await new Promise<string[]>((resolve, reject) => {
    const take = (text: Buffer): void => {
      output += text.toString()
      const found = /^.*ready.*\n/m.exec(output)?.[0].match(/https?:\/\/[\w.:[\]-]+/g)
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
    async end(signal) {
      child.kill(signal)
      await exited
    }
  }
}
