// Readers of forms that stand at upstreams: what they take for the fields of a form, in Node, Python and Go.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { python } from '../python/venv.ts'
import { seenByNode } from './with_node.ts'

/** Name and value. */
export type Field = [string, string]
/** What was read, by the reader; null when it refuses the form. */
export type Seen = Record<string, Field[] | null>

/** A form as it is sent. */
export interface Sent {
  type: string
  body: Buffer
}

/** What all readers of this machine take each form for, in their order, and which readers it does not have. */
export async function readByAll(forms: readonly Sent[]): Promise<{ seen: Seen[]; missing: string[] }> {
  const missing: string[] = []
  const seen: Seen[] = []
  for (const { type, body } of forms) seen.push(await seenByNode(type, body))
  const others: [string, string | undefined, string[]][] = [
    ['python3 with venv and ensurepip', python(), [join(import.meta.dirname, 'with_python.py')]],
    ['go', found('go'), ['run', join(import.meta.dirname, 'with_go.go')]]
  ]
  const told = others.map(async ([name, command, parameters]) => {
    if (command === undefined) return void missing.push(name)
    for (const [at, fields] of (await readBy(command, parameters, forms)).entries()) Object.assign(seen[at]!, fields)
  })
  await Promise.all(told)
  return { seen, missing }
}

function found(command: string): string | undefined {
  return spawnSync(command, ['version'], { stdio: 'ignore' }).status === 0 ? command : undefined
}

/** A line of JSON for each form in, and one for what is read of it out. */
async function readBy(command: string, parameters: readonly string[], forms: readonly Sent[]): Promise<Seen[]> {
  const child = spawn(command, parameters, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  child.stdin.end(
    forms.map(({ type, body }) => `${JSON.stringify({ type, body: body.toString('base64') })}\n`).join('')
  )
  const lines: Seen[] = []
  for await (const line of createInterface({ input: child.stdout })) lines.push(JSON.parse(line) as Seen)
  const [code] = await ended
  if (code !== 0 || lines.length !== forms.length)
    throw new Error(`${command} ended with ${code} after ${lines.length} of ${forms.length} forms`)
  return lines
}
